//! Soft links with one peer (Annex B, channel access of type 1).

use strait_core::{Duration, Instant};

use crate::c_pdu::{CPdu, NO_MORE_DATA};

/// Where a link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// None.
    Idle,
    /// It was asked for so many times.
    Calling { tries: u32 },
    /// It is made.
    Made {
        /// The caller breaks it when it isn't needed any more.
        by_us: bool,
        /// With long numbers.
        long: bool,
        /// The called side doesn't know yet that the caller heard that it is made. From then on
        /// it calls itself if it has data: the caller would know nothing of their link.
        unheard: Option<Instant>,
        /// Its caller wants no other served.
        exclusive: bool,
    },
    /// It is being broken, so many times.
    Breaking { tries: u32 },
}

/// What a C_PDU of the other end changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// Both ends begin anew, with long numbers or not.
    Made { long: bool },
    /// The link is gone.
    Gone,
}

/// One link, and what is to be said about it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) state: State,
    /// The C_PDU to send in the next turn.
    pub(crate) says: Option<CPdu<'static>>,
    /// When it was used last.
    used: Instant,
}

impl Link {
    pub(crate) const fn new() -> Self {
        Self {
            state: State::Idle,
            says: None,
            used: Instant::ZERO,
        }
    }

    /// Notes that data went either way.
    pub(crate) fn touch(&mut self, now: Instant) {
        self.used = self.used.max(now);
    }

    /// Notes that the other end knows of the link.
    pub(crate) fn confirm(&mut self, now: Instant) {
        if let State::Made { unheard, .. } = &mut self.state {
            *unheard = None;
        }
        self.touch(now);
    }

    /// Notes that a transmission of others lasted from one moment to another: a caller that didn't
    /// hear that the link is made can't have asked again meanwhile.
    pub(crate) fn put_off(&mut self, from: Instant, to: Instant, patience: Duration) {
        if let State::Made { unheard, .. } = &mut self.state
            && let Some(until) = unheard.as_mut().filter(|until| **until > from)
        {
            *until = to + patience;
        }
    }

    pub(crate) const fn is_made(&self) -> bool {
        matches!(self.state, State::Made { .. })
    }

    /// Whether data may be sent.
    pub(crate) const fn carries(&self) -> bool {
        matches!(self.state, State::Made { unheard: None, .. })
    }

    /// Whether the other end is to be called before data may be sent.
    pub(crate) fn wants_call(&self, now: Instant) -> bool {
        match self.state {
            State::Idle => true,
            State::Made { unheard, .. } => unheard.is_some_and(|until| until <= now),
            State::Calling { .. } | State::Breaking { .. } => false,
        }
    }

    /// When the other end is to be called, if it doesn't show that it knows of the link.
    pub(crate) const fn calls_at(&self) -> Option<Instant> {
        match self.state {
            State::Made { unheard, .. } => unheard,
            _ => None,
        }
    }

    /// Whether both ends agreed to long numbers.
    pub(crate) const fn is_long(&self) -> bool {
        matches!(self.state, State::Made { long: true, .. })
    }

    /// Whether its caller wants no other served.
    pub(crate) const fn is_exclusive(&self) -> bool {
        matches!(
            self.state,
            State::Made {
                exclusive: true,
                ..
            }
        )
    }

    /// Asks for a link, again if need be.
    pub(crate) fn call(&mut self, long: bool, exclusive: bool) {
        let tries = match self.state {
            State::Calling { tries } => tries + 1,
            _ => 1,
        };
        self.state = State::Calling { tries };
        self.says = Some(CPdu::Request { exclusive, long });
    }

    /// Breaks the link, again if need be.
    pub(crate) fn break_off(&mut self) {
        let tries = match self.state {
            State::Breaking { tries } => tries + 1,
            _ => 1,
        };
        self.state = State::Breaking { tries };
        self.says = Some(CPdu::Break(NO_MORE_DATA));
    }

    /// Takes it for gone.
    pub(crate) fn forget(&mut self) {
        self.state = State::Idle;
        self.says = None;
    }

    /// When a link isn't needed any more, if nothing more is sent. Its caller breaks it; one that
    /// doesn't has forgotten it, and would not take what is sent by it.
    pub(crate) fn idle_at(&self, idle: Duration) -> Option<Instant> {
        match self.state {
            State::Made { by_us: true, .. } => Some(self.used + idle),
            State::Made { by_us: false, .. } => Some(self.used + idle * 2),
            _ => None,
        }
    }

    /// Takes what the other end says; `patience` is how long a caller may take to send its data,
    /// and `long` says whether this end offers long numbers.
    pub(crate) fn hear(
        &mut self,
        now: Instant,
        c_pdu: CPdu<'_>,
        patience: Duration,
        offers_long: bool,
    ) -> Change {
        match c_pdu {
            CPdu::Request { long, exclusive } => {
                let long = long && offers_long;
                // A second request before any data: our acceptance got lost.
                self.state = State::Made {
                    by_us: false,
                    long,
                    unheard: Some(now + patience),
                    exclusive,
                };
                self.says = Some(CPdu::Accepted { long });
                self.used = now;
                Change::Made { long }
            }
            CPdu::Accepted { long } => {
                let State::Calling { .. } = self.state else {
                    return Change::None;
                };
                let long = long && offers_long;
                self.state = State::Made {
                    by_us: true,
                    long,
                    unheard: None,
                    // The caller knows what it keeps the link for.
                    exclusive: false,
                };
                self.says = None;
                self.used = now;
                Change::Made { long }
            }
            CPdu::Rejected(_) if matches!(self.state, State::Calling { .. }) => {
                self.forget();
                Change::Gone
            }
            CPdu::Break(_) => {
                self.state = State::Idle;
                self.says = Some(CPdu::BreakConfirm);
                Change::Gone
            }
            CPdu::BreakConfirm if matches!(self.state, State::Breaking { .. }) => {
                self.forget();
                Change::Gone
            }
            CPdu::Rejected(_) | CPdu::BreakConfirm | CPdu::Data(_) => Change::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn a_link_is_made_and_broken_by_four_c_pdus() {
        let (mut caller, mut called) = (Link::new(), Link::new());
        let now = Instant::from_secs(1);
        caller.call(true, false);
        let request = caller.says.take().expect("a request");
        let made = Change::Made { long: true };
        assert_eq!(called.hear(now, request, PATIENCE, true), made);
        let accepted = called.says.take().expect("an answer");
        assert_eq!(caller.hear(now, accepted, PATIENCE, true), made);
        assert!(caller.carries());
        // The called end waits until it knows that the caller heard it; at last it calls itself.
        assert!(!called.carries());
        assert!(!called.wants_call(now + PATIENCE - Duration::from_nanos(1)));
        assert!(called.wants_call(now + PATIENCE));
        called.confirm(now);
        assert!(called.carries());
        assert!(!called.wants_call(now + PATIENCE));
        let idle = Duration::from_secs(60);
        assert_eq!(caller.idle_at(idle), Some(now + idle));
        assert_eq!(called.idle_at(idle), Some(now + idle * 2));
        caller.break_off();
        let end = caller.says.take().expect("a break");
        assert_eq!(called.hear(now, end, PATIENCE, true), Change::Gone);
        let confirm = called.says.take().expect("an answer");
        assert_eq!(caller.hear(now, confirm, PATIENCE, true), Change::Gone);
        assert_eq!((caller.state, called.state), (State::Idle, State::Idle));
    }

    #[test]
    fn long_numbers_need_both_ends() {
        for (ours, theirs) in [(true, false), (false, true), (false, false)] {
            let mut link = Link::new();
            let request = CPdu::Request {
                exclusive: false,
                long: theirs,
            };
            let change = link.hear(Instant::ZERO, request, PATIENCE, ours);
            assert_eq!(change, Change::Made { long: false });
            assert_eq!(link.says, Some(CPdu::Accepted { long: false }));
        }
        // Nor does an acceptance make a link that nobody asked for.
        let mut link = Link::new();
        let accepted = CPdu::Accepted { long: true };
        assert_eq!(
            link.hear(Instant::ZERO, accepted, PATIENCE, true),
            Change::None
        );
    }
}
