//! What a link's two ends agree on, with one neighbour.
//!
//! An end that compresses headers says a [`Hello`] ahead of all it sends until the other end has
//! answered to this incarnation of it. So nothing of a new incarnation is ever read with what an
//! earlier one left behind. An end that doesn't compress only answers.

use alloc::vec::Vec;

use strait_core::stats::Agreement;
use strait_wire::hello::Hello;

/// The format that this version speaks; it speaks no other.
const FORMAT: u8 = 1;
/// Hellos ahead of everything while nobody answers: on a link with a way back the answer to one of
/// them arrives.
const EAGER: u32 = 64;
/// After that, only one packet in so many carries one.
const RARELY: u32 = 16;

/// What one end offers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) compresses: bool,
    pub(super) cids_max: u8,
    pub(super) mtu: u16,
}

/// What is settled with one neighbour.
#[derive(Debug)]
pub(super) struct Terms {
    own: Offer,
    incarnation: u32,
    other: Option<Hello>,
    confirmed: bool,
    /// The other end waits for an answer.
    due: bool,
    /// Packets since the start without an answer.
    unanswered: u32,
}

/// What a hello changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// The other end has started since: what it told before counts no more.
    pub(super) restarted: bool,
    /// It has heard nothing of what this end told.
    pub(super) deaf: bool,
    pub(super) agreement: Agreement,
}

impl Terms {
    /// Nothing is settled. `incarnation` is another number after each start.
    pub(super) const fn new(own: Offer, incarnation: u32) -> Self {
        Self {
            own,
            // Zero stands for nobody.
            incarnation: if incarnation == 0 { 1 } else { incarnation },
            other: None,
            confirmed: false,
            due: false,
            unanswered: 0,
        }
    }

    /// Nothing is settled any more: the medium was away, and the other end may be another.
    /// What this end knew is gone as after a start.
    pub(super) const fn reset(&mut self) {
        *self = Self::new(self.own, self.incarnation.wrapping_add(1));
    }

    /// Headers go compressed, as far as this end knows.
    pub(super) fn compresses(&self) -> bool {
        match self.agreement() {
            Agreement::None => self.own.compresses,
            agreement => agreement == Agreement::Compressed,
        }
    }

    /// The highest number of a context that both have.
    pub(super) fn cids_max(&self) -> u8 {
        let own = self.own.cids_max;
        self.other.map_or(own, |other| other.cids_max.min(own))
    }

    /// The other end finds timestamps by the transport checksum, as this one does.
    pub(super) fn far_timestamps(&self) -> bool {
        self.other.is_some_and(|other| other.far_timestamps)
    }

    /// The largest packet that the other end takes, in octets.
    pub(super) fn mtu(&self) -> Option<u16> {
        self.other.map(|other| other.mtu)
    }

    fn agreement(&self) -> Agreement {
        match self.other {
            None => Agreement::None,
            Some(other) if other.format_least > FORMAT || other.format < FORMAT => {
                Agreement::OtherFormat
            }
            Some(_) if !self.own.compresses => Agreement::OwnPlain,
            Some(other) if !other.compresses => Agreement::OtherPlain,
            Some(_) => Agreement::Compressed,
        }
    }

    /// Appends a hello ahead of what is about to be sent, if one goes.
    pub(super) fn put(&mut self, out: &mut Vec<u8>) {
        let asks = self.own.compresses && !self.confirmed;
        if asks {
            self.unanswered = self.unanswered.saturating_add(1);
        }
        let eager = self.unanswered <= EAGER || self.unanswered.is_multiple_of(RARELY);
        if !(self.due || asks && eager) {
            return;
        }
        self.due = false;
        let hello = Hello {
            format: FORMAT,
            format_least: FORMAT,
            compresses: self.own.compresses,
            // Who doesn't ask has nothing to be confirmed.
            confirmed: self.confirmed || !self.own.compresses,
            far_timestamps: true,
            cids_max: self.own.cids_max,
            incarnation: self.incarnation,
            heard: self.other.map_or(0, |other| other.incarnation),
            mtu: self.own.mtu,
        };
        hello.emit(out);
    }

    /// Takes in what the other end says of itself.
    pub(super) fn hear(&mut self, hello: Hello) -> News {
        let before = self.other.replace(hello);
        let restarted = before.is_none_or(|before| before.incarnation != hello.incarnation);
        if hello.heard == self.incarnation {
            self.confirmed = true;
        } else if restarted {
            // What the other end knew of this one is gone too.
            self.confirmed = false;
            self.unanswered = 0;
        }
        self.due |= !hello.confirmed || hello.heard != self.incarnation;
        News {
            restarted,
            deaf: restarted && hello.heard != self.incarnation,
            agreement: self.agreement(),
        }
    }

    /// Something arrived that doesn't fit what this end knows: the other one isn't to go on.
    pub(super) const fn object(&mut self) {
        self.due = true;
    }

    /// Whether an answer is owed.
    pub(super) const fn owes(&self) -> bool {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(compresses: bool, incarnation: u32) -> Terms {
        let own = Offer {
            compresses,
            cids_max: 15,
            mtu: 1500,
        };
        Terms::new(own, incarnation)
    }

    fn pass(from: &mut Terms, to: &mut Terms) -> Option<News> {
        let mut line = Vec::new();
        from.put(&mut line);
        let (hello, rest) = Hello::parse(&line)?;
        assert!(rest.is_empty());
        Some(to.hear(hello))
    }

    #[test]
    fn three_hellos_settle_it_and_then_there_are_none() {
        let (mut a, mut b) = (end(true, 7), end(true, 8));
        let news = pass(&mut a, &mut b).unwrap();
        assert!(news.restarted && news.deaf && news.agreement == Agreement::Compressed);
        assert!(b.owes());
        let news = pass(&mut b, &mut a).unwrap();
        assert!(news.restarted && !news.deaf);
        assert!(a.owes() && a.confirmed && !b.confirmed);
        assert!(!pass(&mut a, &mut b).unwrap().restarted);
        assert!(b.confirmed && !b.owes() && !a.owes());
        assert_eq!(pass(&mut a, &mut b), None);
        assert_eq!(pass(&mut b, &mut a), None);
    }

    #[test]
    fn a_new_incarnation_is_told_before_anything_else() {
        let (mut a, mut b) = (end(true, 7), end(true, 8));
        for _ in 0..3 {
            pass(&mut a, &mut b);
            pass(&mut b, &mut a);
        }
        let mut b = end(true, 9);
        let news = pass(&mut b, &mut a).unwrap();
        assert!(news.restarted && news.deaf);
        assert!(!a.confirmed && a.owes());
        pass(&mut a, &mut b).unwrap();
        assert!(b.confirmed);
    }

    #[test]
    fn an_end_without_compression_answers_and_both_go_plain() {
        let (mut a, mut b) = (end(true, 7), end(false, 8));
        assert_eq!(pass(&mut b, &mut a), None);
        let news = pass(&mut a, &mut b).unwrap();
        assert_eq!(news.agreement, Agreement::OwnPlain);
        assert!(a.compresses());
        let news = pass(&mut b, &mut a).unwrap();
        assert_eq!(news.agreement, Agreement::OtherPlain);
        assert!(!a.compresses() && !b.compresses());
        assert!(!a.owes());
    }

    #[test]
    fn another_format_is_no_common_ground() {
        for (least, newest, agreed) in [(1, 1, true), (1, 2, true), (2, 3, false), (0, 0, false)] {
            let mut a = end(true, 7);
            let mut line = Vec::new();
            end(true, 8).put(&mut line);
            let (hello, _) = Hello::parse(&line).unwrap();
            let news = a.hear(Hello {
                format: newest,
                format_least: least,
                ..hello
            });
            assert_eq!(news.agreement == Agreement::Compressed, agreed);
            assert_eq!(news.agreement == Agreement::OtherFormat, !agreed);
            assert_eq!(a.compresses(), agreed);
        }
    }

    #[test]
    fn without_an_answer_hellos_become_rare() {
        let mut a = end(true, 7);
        let carried = |a: &mut Terms| {
            let mut line = Vec::new();
            a.put(&mut line);
            !line.is_empty()
        };
        assert!((0..EAGER).all(|_| carried(&mut a)));
        let rare = (0..10 * RARELY).filter(|_| carried(&mut a)).count();
        assert_eq!(rare, 10);
    }
}
