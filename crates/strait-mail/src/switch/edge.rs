//! What an operator has done with messages for slow links: their traces are thinned, and texts go
//! before attachments.

use alloc::format;
use alloc::vec::Vec;

use super::queue::{Queue, Target};
use super::{RouteSettings, TextFirst};
use crate::command::Notify;
use crate::header::{self, Header};
use crate::message::{Message, Recipient};
use crate::text::text_first;
use strait_core::Instant;

/// The routes by which a message goes.
fn routes_of<'a>(
    queue: &'a Queue,
    message: &'a Message,
) -> impl Iterator<Item = (usize, &'a RouteSettings)> {
    let recipients = message.recipients.iter();
    recipients.filter_map(|it| match queue.target_of(&it.address)? {
        Target::Route(route) => Some((route, queue.settings.routes.get(route)?)),
        Target::Mailbox => None,
    })
}

/// Takes note of which next hops are told little of a message's way. That is decided once: what
/// has begun goes on as it is, whatever the node file says then.
pub(super) fn thin(queue: &Queue, message: &mut Message, header: &Header) {
    let routes = routes_of(queue, message);
    let hops = routes.flat_map(|(_, it)| it.hops.iter().filter(|it| it.thin));
    let mut hops: Vec<_> = hops.map(|it| it.to).collect();
    hops.sort_unstable();
    hops.dedup();
    if !hops.is_empty() {
        message.thin_for = hops;
        message.traces.clone_from(&header.traces);
        message.thinned.clone_from(&header.thinned);
    }
}

/// Whether texts go first somewhere.
pub(super) fn parts_texts(queue: &Queue) -> bool {
    queue
        .settings
        .routes
        .iter()
        .any(|it| it.text_first.is_some())
}

/// The text of a message that is to go first, as the first octets of that have it.
pub(super) fn text_of(
    queue: &Queue,
    now: Instant,
    id: u64,
    octets: &[u8],
    header: &Header,
) -> Option<Vec<u8>> {
    let name = format!("text.{id}.{}@{}", queue.now_s(now), queue.settings.name);
    text_first(octets, header, &name)
}

/// Has a message that is too long for a route follow behind its text: the text's message, and
/// its number. All who get the one get the other.
pub(super) fn part(
    queue: &mut Queue,
    message: &mut Message,
    text: &[u8],
) -> Option<(u64, Message)> {
    let precedence = message.precedence();
    let applies = |it: &TextFirst| message.octets > it.octets && precedence > it.rest;
    let rules = routes_of(queue, message).filter_map(|(_, it)| it.text_first);
    let rest = rules.filter(applies).map(|it| it.rest).min()?;
    let recipients = message.recipients.iter().map(|it| Recipient {
        address: it.address.clone(),
        // The whole message tells what is to be told.
        notify: Notify::NEVER_TOLD,
        ..Recipient::default()
    });
    let header = header::parse(text);
    let mut first = Message {
        token: queue.token(),
        accepted_s: message.accepted_s,
        wire: message.wire,
        said: message.said,
        body: message.body,
        octets: text.len() as u64,
        sender: message.sender.clone(),
        trace: message.trace.clone(),
        recipients: recipients.collect(),
        ..Message::default()
    };
    thin(queue, &mut first, &header);
    first.naming = header.naming;
    let name = first.naming.iter();
    let mut name = name.filter_map(|it| it.strip_prefix("Message-ID: "));
    message.text = name.next()?.into();
    (message.wire, message.said) = (rest.wire(), true);
    queue.stats.slow.texts_first += 1;
    Some((queue.number(), first))
}
