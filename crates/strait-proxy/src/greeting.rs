//! Who is there: tokens, and the hellos by which either side learns the other's.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::{Duration, Instant};

use crate::codec::{Head, write_head};

/// The shortest pause between hellos: others may ask for any number of them.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest, where patience isn't longer.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Hellos in a row to somebody who doesn't answer while there is nothing to say, and the pause
/// before each further one.
const UNANSWERED_MAX: u32 = 5;
const PAUSE_LONG: Duration = Duration::from_secs(300);
/// Earlier tokens of the other side that are remembered: a late hello of its isn't taken for news.
const RETIRED_MAX: usize = 8;

/// Both tokens as one.
pub(crate) const fn both(to: u32, from: u32) -> u32 {
    to ^ from.rotate_left(13)
}

/// What a hello tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Nothing new.
    Nothing,
    /// Nothing new, by who is there.
    Again,
    /// The other side is there.
    There,
    /// It began anew.
    Anew,
}

/// Both sides' tokens.
#[derive(Debug)]
pub(crate) struct Greeting {
    own: u32,
    peer: Option<u32>,
    retired: VecDeque<u32>,
    /// A hello is to go at this moment, to who has this token.
    at: Option<Instant>,
    to: u32,
    /// How many went to him since he was heard.
    said: u32,
    /// When the last one went, and how many in a row.
    last: Option<Instant>,
    unanswered: u32,
}

impl Greeting {
    pub(crate) fn new(own: u32) -> Self {
        Self {
            own: own.max(1),
            peer: None,
            retired: VecDeque::new(),
            at: None,
            to: 0,
            said: 0,
            last: None,
            unanswered: 0,
        }
    }

    pub(crate) const fn peer(&self) -> Option<u32> {
        self.peer
    }

    /// What the other side knows items by; `None` if nobody is there.
    pub(crate) fn token(&self) -> Option<u32> {
        self.peer.map(|peer| both(peer, self.own))
    }

    /// Whether items with this token are the other side's to this one, and not an earlier or later
    /// one's of either.
    pub(crate) fn is_known(&self, token: u32) -> bool {
        self.peer.is_some_and(|peer| token == both(self.own, peer))
    }

    /// A hello is to go, as soon as it may.
    pub(crate) fn greet(&mut self, now: Instant) {
        let at = self.last.map_or(now, |last| now.max(last + PAUSE_MIN));
        let before = self.at.filter(|before| *before <= at);
        self.at = Some(before.unwrap_or(at));
    }

    /// Somebody sent what is for an earlier incarnation, or hasn't said who he is. If it is who is
    /// known here, he may have missed the hello that told him of this one.
    pub(crate) fn hear_stranger(&mut self, now: Instant) {
        self.to = self.peer.unwrap_or_default();
        self.greet(now);
    }

    /// A hello came.
    pub(crate) fn hear(&mut self, now: Instant, to: u32, from: u32) -> News {
        if self.retired.contains(&from) {
            return News::Nothing;
        }
        (self.to, self.said) = (from, 0);
        // Who knows our token hears what we say: anybody else may say what he wants.
        let proved = to == self.own;
        if proved && self.peer == Some(from) {
            self.at = None;
            return News::Again;
        }
        self.greet(now);
        if !proved {
            return News::Nothing;
        }
        self.unanswered = 0;
        let Some(before) = self.peer.replace(from) else {
            return News::There;
        };
        if self.retired.len() >= RETIRED_MAX {
            self.retired.pop_front();
        }
        self.retired.push_back(before);
        News::Anew
    }

    pub(crate) const fn wake(&self) -> Option<Instant> {
        self.at
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.at.is_some_and(|at| at <= now)
    }

    /// The hello that is due. It is repeated until it is answered, after `patience` and ever
    /// longer; with nothing to say, seldom after a while.
    pub(crate) fn say(
        &mut self,
        now: Instant,
        first: u32,
        patience: Duration,
        has_more: bool,
    ) -> Vec<u8> {
        (self.at, self.last) = (None, Some(now));
        // Who knows this one already, and whose word of that was lost, has nothing more to say to a
        // hello of somebody he knows. To a stranger's he has.
        let again = self.peer.is_none() && self.said % 2 == 1;
        self.said = self.said.wrapping_add(1);
        if self.peer.is_none() {
            let pause = patience * (1 << self.unanswered.min(5));
            let pause = match has_more || self.unanswered < UNANSWERED_MAX {
                true => pause.min(PAUSE_MAX.max(patience)),
                false => PAUSE_LONG.max(patience),
            };
            self.unanswered = self.unanswered.saturating_add(1);
            self.at = Some(now + pause);
        }
        let head = Head::Hello {
            to: if again { 0 } else { self.to },
            from: self.own,
            first,
        };
        let mut bytes = Vec::new();
        write_head(head, &mut bytes);
        bytes
    }
}
