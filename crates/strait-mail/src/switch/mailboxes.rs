//! Mail that stays here: one message at a time is read and put into a Maildir for each of its
//! recipients.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use strait_core::Instant;
use strait_core::node::StoreError;
use strait_core::storage::LOAD_OCTETS_MAX;
use strait_core::work::Work;

use super::asks::{Asks, Pending};
use super::queue::{Outcome, Queue, Way, text_key};
use crate::command::Body;
use crate::message::Recipient;
use crate::precedence::Precedence;
use crate::report::Action;

/// A message on its way into mailboxes.
#[derive(Debug)]
struct Delivery {
    id: u64,
    /// Octets of its text that have been read.
    offset: u64,
    /// The file, as it is so far.
    octets: Vec<u8>,
    recipients: Vec<Recipient>,
    /// What became of the first of them.
    outcomes: Vec<Outcome>,
}

/// The mailboxes.
#[derive(Debug, Default)]
pub(super) struct Mailboxes {
    current: Option<Delivery>,
}

impl Mailboxes {
    /// Begins with the most urgent message, if none is under way.
    pub(super) fn settle(&mut self, queue: &mut Queue, asks: &mut Asks) {
        if self.current.is_some() || queue.unread() > 0 {
            return;
        }
        let mut highest = Precedence::ALL.into_iter().rev();
        let Some(id) = highest.find_map(|it| queue.first(Way::Mailbox, it)) else {
            return;
        };
        let Some(message) = queue.message(id) else {
            return;
        };
        let mut octets = format!("Return-Path: <{}>\r\n", message.sender).into_bytes();
        octets.extend(message.prefix(false, false));
        let recipients = queue.recipients(Way::Mailbox, id);
        queue.begin(Way::Mailbox, id);
        asks.load(text_key(id), 0, u64::from(LOAD_OCTETS_MAX), Pending::Copy);
        self.current = Some(Delivery {
            id,
            offset: 0,
            octets,
            recipients,
            outcomes: Vec::new(),
        });
    }

    /// The next octets of its text.
    pub(super) fn hear_text(
        &mut self,
        now: Instant,
        result: Result<Option<&[u8]>, StoreError>,
        queue: &mut Queue,
        asks: &mut Asks,
    ) {
        let Some(delivery) = &mut self.current else {
            return;
        };
        let whole = queue.message(delivery.id).map_or(0, |it| it.octets);
        let octets = result.ok().flatten().unwrap_or_default();
        delivery.offset += octets.len() as u64;
        delivery.octets.extend_from_slice(octets);
        if delivery.offset >= whole {
            delivery.write(queue, asks);
        } else if octets.is_empty() {
            let unread = |_: &Recipient| Outcome::Later("its text can't be read".into());
            let outcomes = delivery.recipients.iter().map(unread).collect();
            self.end(now, outcomes, queue, asks);
        } else {
            let most = u64::from(LOAD_OCTETS_MAX);
            asks.load(text_key(delivery.id), delivery.offset, most, Pending::Copy);
        }
    }

    /// A recipient has its file, or hasn't.
    pub(super) fn hear_delivered(
        &mut self,
        now: Instant,
        there: bool,
        queue: &mut Queue,
        asks: &mut Asks,
    ) {
        let Some(delivery) = &mut self.current else {
            return;
        };
        delivery.outcomes.push(if there {
            Outcome::Done(Some((Action::Delivered, String::new())))
        } else {
            Outcome::Later("the mailbox can't be written".into())
        });
        if delivery.outcomes.len() < delivery.recipients.len() {
            delivery.write(queue, asks);
        } else {
            let outcomes = core::mem::take(&mut delivery.outcomes);
            self.end(now, outcomes, queue, asks);
        }
    }

    fn end(&mut self, now: Instant, outcomes: Vec<Outcome>, queue: &mut Queue, asks: &mut Asks) {
        if let Some(delivery) = self.current.take() {
            queue.finish(now, (Way::Mailbox, delivery.id), outcomes, asks);
        }
    }
}

impl Delivery {
    /// Its octets with lines that end by LF.
    fn lines(&self) -> Vec<u8> {
        let next = self.octets.iter().skip(1).map(Some).chain([None]);
        let all = self.octets.iter().zip(next);
        let kept = all.filter(|it| *it != (&b'\r', Some(&b'\n')));
        kept.map(|(octet, _)| *octet).collect()
    }

    /// Writes the file of the next recipient. Its name is the message's, so that one that was
    /// written before a crash isn't written twice. Lines end as files have it, if it has lines.
    fn write(&mut self, queue: &Queue, asks: &mut Asks) {
        let Some(recipient) = self.recipients.get(self.outcomes.len()) else {
            return;
        };
        let Some(message) = queue.message(self.id) else {
            return;
        };
        let address = recipient.address.to_ascii_lowercase();
        let octets = match message.body {
            Body::Binary => self.octets.clone(),
            Body::SevenBit | Body::EightBit => self.lines(),
        };
        let work = Work::Deliver {
            folder: format!("{}/{address}", queue.settings.maildir),
            name: format!(
                "{}.M{}T{:016x}.{}",
                message.accepted_s, self.id, message.token, queue.settings.name
            ),
            octets,
        };
        asks.work(work, Pending::Copy);
    }
}
