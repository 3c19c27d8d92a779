//! Soft links with one peer (Annex B, channel access of type 1).

use strait_core::{Duration, Instant};

use crate::c_pdu::{CPdu, NO_MORE_DATA, Ours, UNKNOWN_REASON};

/// Where a link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// None.
    Idle,
    /// It was asked for so many times.
    Calling {
        tries: u32,
        /// The first call began the state that data continues, and this one states it.
        early: bool,
        /// Data goes with this one.
        data: bool,
    },
    /// It is made.
    Made {
        terms: Terms,
        /// The called side doesn't know yet that the caller heard that it is made. From then on
        /// it calls itself if it has data: the caller would know nothing of their link.
        unheard: Option<Unheard>,
    },
    /// It is being broken, so many times; again from `again` on, if that wasn't answered.
    Breaking {
        terms: Terms,
        tries: u32,
        again: Option<Instant>,
        /// Turns of this node since then that others didn't begin before.
        passed: u32,
    },
}

/// How long a called station waits for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unheard {
    /// To this moment, if no other station is on the air.
    pub(crate) until: Instant,
    /// To this moment, whatever is on the air.
    pub(crate) latest: Instant,
    /// It was waited for, and is asked whether it heard.
    pub(crate) asked: bool,
}

/// How a link was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The caller breaks it when it isn't needed any more.
    by_us: bool,
    /// With long numbers.
    long: bool,
    /// Its caller wants no other served.
    exclusive: bool,
    /// Something else made it, without a word between the stations, and ends it.
    given: bool,
    /// Its caller asked by it for the hard link that it is made for.
    claimed: bool,
}

/// One link, and its pending messages.
#[derive(Debug)]
pub(crate) struct Link {
    state: State,
    /// The C_PDU to send in the next turn.
    says: Option<CPdu<'static>>,
    /// Calls of a series that continues with the next one, though there is none now.
    crossed: u32,
    /// When it was used last.
    used: Instant,
    /// This node's last call asked for an exclusive link.
    asks_exclusive: bool,
    /// The called link exists, to be made exclusive or to be kept.
    renews: bool,
    /// A call asks whether the other end still has it.
    renewing: bool,
    /// When the other end accepted it.
    made: Instant,
}

impl Link {
    pub(crate) const fn new() -> Self {
        Self {
            state: State::Idle,
            says: None,
            crossed: 0,
            used: Instant::ZERO,
            asks_exclusive: false,
            renews: false,
            renewing: false,
            made: Instant::ZERO,
        }
    }

    /// Where it stands.
    pub(crate) const fn state(&self) -> State {
        self.state
    }

    /// Whether there is a message about it.
    pub(crate) const fn has_to_say(&self) -> bool {
        self.says.is_some()
    }

    /// Octets of that.
    pub(crate) fn says_octets(&self) -> Option<usize> {
        self.says.map(|says| says.octets().len())
    }

    /// Whether that is that the other end's call is accepted.
    pub(crate) const fn says_accepted(&self) -> bool {
        matches!(self.says, Some(CPdu::Accepted { .. }))
    }

    /// That leaves.
    pub(crate) const fn say(&mut self) -> Option<CPdu<'static>> {
        self.says.take()
    }

    /// Rejects the other end's call.
    pub(crate) const fn reject(&mut self, reason: u8) {
        self.says = Some(CPdu::Rejected(reason));
    }

    /// Whether there is none, and no message about one.
    pub(crate) const fn is_vacant(&self) -> bool {
        matches!(self.state, State::Idle) && self.says.is_none()
    }

    /// Notes that data went either way.
    pub(crate) fn touch(&mut self, now: Instant) {
        self.used = self.used.max(now);
    }

    /// Notes that the other end uses the link. It hasn't heard the break, and continues.
    pub(crate) fn confirm(&mut self, now: Instant) {
        if let Some(terms) = self.terms() {
            if matches!(self.state, State::Breaking { .. }) {
                self.says = None;
            }
            let unheard = None;
            self.state = State::Made { terms, unheard };
            self.end_renewal();
        }
        self.touch(now);
    }

    /// Notes that a transmission of others lasted from one moment to another: a caller that didn't
    /// hear that the link is made can't have asked again meanwhile. Its turn comes at the latest
    /// when all others had theirs.
    pub(crate) fn put_off(&mut self, from: Instant, to: Instant, patience: Duration) {
        if let State::Made { unheard, .. } = &mut self.state
            && let Some(unheard) = unheard.as_mut().filter(|it| it.until > from)
        {
            unheard.until = (to + patience).min(unheard.latest);
        }
    }

    /// How much it is worth beside others: more if it is there, and more if its other end knows
    /// that it is; of equals, which was used last.
    pub(crate) const fn standing(&self) -> (bool, bool, Instant) {
        (self.is_there(), self.carries(), self.used)
    }

    pub(crate) const fn is_made(&self) -> bool {
        matches!(self.state, State::Made { .. })
    }

    /// How it was made, if it is there: not broken by both ends.
    const fn terms(&self) -> Option<Terms> {
        match self.state {
            State::Made { terms, .. } | State::Breaking { terms, .. } => Some(terms),
            State::Idle | State::Calling { .. } => None,
        }
    }

    /// Whether it is there: made, and not broken by both ends.
    pub(crate) const fn is_there(&self) -> bool {
        self.terms().is_some()
    }

    /// Whether the other end is about to be informed that it is over.
    pub(crate) const fn is_leaving(&self) -> bool {
        matches!(self.state, State::Breaking { .. }) && self.says.is_some()
    }

    /// Whether data may be sent.
    pub(crate) const fn carries(&self) -> bool {
        matches!(self.state, State::Made { unheard: None, .. }) || self.calls_with_data()
    }

    /// Whether a call is open that data may have gone with.
    pub(crate) const fn called_with_data(&self) -> bool {
        matches!(self.state, State::Calling { early: true, .. }) || self.is_renewing()
    }

    /// Whether nothing went by it for so long, and each end may send.
    pub(crate) fn is_unused(&self, now: Instant, time: Duration) -> bool {
        let free = matches!(self.state, State::Made { unheard: None, .. });
        free && self.says.is_none() && now >= self.used + time
    }

    /// Asks by a call whether the other end still has it. Data follows in the same transmission,
    /// and isn't accepted by an end that has forgotten its epoch.
    pub(crate) const fn renew(&mut self, ours: Option<Ours>) {
        let exclusive = false;
        self.renewing = true;
        self.says = Some(CPdu::Request { exclusive, ours });
    }

    /// Whether that wasn't answered yet.
    pub(crate) const fn is_renewing(&self) -> bool {
        self.renewing && self.is_made()
    }

    /// The other end has it.
    fn end_renewal(&mut self) {
        if core::mem::take(&mut self.renewing) && matches!(self.says, Some(CPdu::Request { .. })) {
            self.says = None;
        }
    }

    /// Whether the other end is to be called before data may be sent. An end that was told that a
    /// link is over is answered first: it would accept no data by a call while it holds on to the
    /// link.
    pub(crate) fn wants_call(&self, now: Instant) -> bool {
        match self.state {
            State::Idle => self.says.is_none(),
            State::Made { unheard, .. } => unheard.is_some_and(|it| it.until <= now && !it.asked),
            State::Calling { .. } | State::Breaking { .. } => false,
        }
    }

    /// When the other end is to be called, if it doesn't show that it knows of the link.
    pub(crate) const fn calls_at(&self) -> Option<Instant> {
        match self.state {
            State::Made {
                unheard: Some(unheard),
                ..
            } if !unheard.asked => Some(unheard.until),
            _ => None,
        }
    }

    /// Asks a caller of `strait` whether it heard that the link is made, by repeating the
    /// acceptance once. One that has it acknowledges, one that still calls is answered, and one
    /// that has none says that it is over: a call would end the data that the caller has sent by
    /// the link.
    pub(crate) fn ask_caller(&mut self, ours: Ours) -> bool {
        match &mut self.state {
            State::Made {
                terms,
                unheard: Some(unheard),
            } if terms.long && !unheard.asked => {
                unheard.asked = true;
                self.says = Some(CPdu::Accepted { ours: Some(ours) });
                true
            }
            _ => false,
        }
    }

    /// That wasn't answered: it is asked again, if it is still wanted.
    pub(crate) const fn ask_again(&mut self) {
        if let State::Made {
            unheard: Some(unheard),
            ..
        } = &mut self.state
        {
            unheard.asked = false;
        }
    }

    /// Whether its caller is asked whether it heard that it is made.
    pub(crate) const fn asks_caller(&self) -> bool {
        matches!(self.state, State::Made { unheard: Some(unheard), .. } if unheard.asked)
    }

    pub(crate) const fn is_calling(&self) -> bool {
        matches!(self.state, State::Calling { .. })
    }

    /// Whether a call is open, for a link that is there or not.
    pub(crate) const fn called(&self) -> bool {
        self.is_calling() || self.is_renewing()
    }

    /// Whether it waits for an answer of the other end.
    pub(crate) const fn waits(&self) -> bool {
        let open = matches!(self.state, State::Calling { .. } | State::Breaking { .. });
        (open || self.asks_caller()) && self.says.is_none()
    }

    /// Whether a call is open with which data goes.
    pub(crate) const fn calls_with_data(&self) -> bool {
        matches!(self.state, State::Calling { data: true, .. })
    }

    /// Whether long numbers are in use.
    pub(crate) const fn is_long(&self) -> bool {
        matches!(self.terms(), Some(Terms { long: true, .. })) || self.called_with_data()
    }

    /// Whether it is there for its owner: made, or called for again while it was.
    pub(crate) const fn is_kept(&self) -> bool {
        self.is_made() || self.renews && self.is_calling()
    }

    /// Whether either end asked the other for an exclusive link.
    pub(crate) const fn has_exclusive(&self) -> bool {
        self.is_exclusive() || self.is_own_exclusive()
    }

    /// The same of this end.
    pub(crate) const fn is_own_exclusive(&self) -> bool {
        matches!(self.terms(), Some(terms) if terms.by_us && self.asks_exclusive && self.is_made())
    }

    /// Whether its caller wants no other served.
    pub(crate) const fn is_exclusive(&self) -> bool {
        matches!(self.terms(), Some(terms) if terms.exclusive && self.is_made())
    }

    /// The same, and it has asked for a hard link since (A.3.2.2.2): the call may be forged in its
    /// name, over a link by which its data continues.
    pub(crate) const fn keeps_others_out(&self) -> bool {
        matches!(self.terms(), Some(terms) if terms.claimed) && self.is_exclusive()
    }

    /// The other end asks for a hard link by it.
    pub(crate) const fn claim(&mut self) {
        if let State::Made { terms, .. } = &mut self.state {
            terms.claimed = true;
        }
    }

    /// Notes that its caller may be forged: there is no wait for it.
    pub(crate) const fn doubt(&mut self, now: Instant) {
        if let State::Made {
            unheard: Some(unheard),
            ..
        } = &mut self.state
        {
            (unheard.until, unheard.latest) = (now, now);
        }
    }

    /// Times that it was asked for in a row.
    pub(crate) const fn tries(&self) -> u32 {
        match self.state {
            State::Calling { tries, .. } => tries,
            State::Idle => self.crossed,
            State::Made { .. } | State::Breaking { .. } => 0,
        }
    }

    /// Asks for a link, again if need be. Data goes with the first of a series, if the other end is
    /// `there`, as far as is known. An unanswered one is repeated without data, as short as
    /// possible.
    pub(crate) fn call(&mut self, ours: Option<Ours>, exclusive: bool, there: bool) {
        let early = ours.is_some_and(|ours| ours.epoch.is_some());
        let tries = self.tries() + 1;
        let data = early && there && tries == 1;
        self.renews = self.is_kept();
        self.asks_exclusive = exclusive;
        self.state = State::Calling { tries, early, data };
        self.says = Some(CPdu::Request { exclusive, ours });
    }

    /// Whether something else made it.
    pub(crate) const fn is_given(&self) -> bool {
        matches!(self.terms(), Some(Terms { given: true, .. }))
    }

    /// The other end asked for it, and is answered. Until it shows that it heard the answer, no
    /// data is sent, and after `unheard` it is called; `None`: its data is evidence enough.
    pub(crate) fn accept(
        &mut self,
        now: Instant,
        unheard: Option<Unheard>,
        exclusive: bool,
        ours: Option<Ours>,
    ) {
        let terms = Terms {
            by_us: false,
            long: ours.is_some(),
            exclusive,
            given: false,
            claimed: self.keeps_others_out(),
        };
        self.state = State::Made { terms, unheard };
        (self.crossed, self.renewing) = (0, false);
        self.says = Some(CPdu::Accepted { ours });
        self.used = now;
    }

    /// The other end accepted.
    pub(crate) fn make(&mut self, now: Instant, long: bool) {
        let terms = Terms {
            by_us: true,
            long,
            // The caller knows the purpose of its link.
            exclusive: false,
            given: false,
            claimed: false,
        };
        self.begin(now, terms);
    }

    /// Something else has made it.
    pub(crate) fn give(&mut self, now: Instant) {
        let terms = Terms {
            by_us: false,
            long: false,
            exclusive: false,
            given: true,
            claimed: false,
        };
        self.begin(now, terms);
    }

    fn begin(&mut self, now: Instant, terms: Terms) {
        let unheard = None;
        self.state = State::Made { terms, unheard };
        (self.crossed, self.renewing) = (0, false);
        self.says = None;
        (self.used, self.made) = (now, now);
    }

    /// Whether the other end's acceptance answers no call of this node: nothing before it did in
    /// the transmission that began `since`.
    pub(crate) fn is_unasked(&self, since: Instant) -> bool {
        self.made < since
    }

    /// Whether it is kept exclusively for the other end, which didn't show in time that it needs
    /// that.
    pub(crate) fn is_kept_in_vain(&self, now: Instant) -> bool {
        self.is_exclusive() && self.wants_call(now)
    }

    /// The other end has a link that this one knows nothing of.
    pub(crate) fn disown(&mut self) {
        (self.state, self.crossed) = (State::Idle, 0);
        self.says = Some(CPdu::Break(UNKNOWN_REASON));
    }

    /// Breaks the link, again if need be.
    pub(crate) fn break_off(&mut self) {
        let Some(terms) = self.terms() else { return };
        let tries = match self.state {
            State::Breaking { tries, .. } => tries + 1,
            _ => 1,
        };
        self.state = State::Breaking {
            terms,
            tries,
            again: None,
            passed: 0,
        };
        self.says = Some(CPdu::Break(NO_MORE_DATA));
    }

    /// The break wasn't answered: it is repeated, to a node of `strait` as soon as possible.
    /// Another node can't take it back, and its data sent meanwhile would be lost: it has so long
    /// to repeat that.
    pub(crate) fn break_again(&mut self, now: Instant, silence: Duration) {
        if let State::Breaking { terms, again, .. } = &mut self.state {
            let wait = if terms.long { Duration::ZERO } else { silence };
            *again = Some(now + wait);
        }
    }

    /// A turn of this node has come, and with it the other end's chance to continue, or to have
    /// been ahead.
    pub(crate) const fn pass_turn(&mut self) {
        if let State::Breaking {
            again: Some(_),
            passed,
            ..
        } = &mut self.state
        {
            *passed = passed.saturating_add(1);
        }
    }

    /// Takes it for gone.
    pub(crate) fn forget(&mut self) {
        (self.state, self.crossed) = (State::Idle, 0);
        self.says = None;
    }

    /// When a link isn't needed any more, if no more data is sent. Its caller breaks it; one that
    /// doesn't has forgotten it, and would not accept data by it.
    pub(crate) fn idle_at(&self, idle: Duration) -> Option<Instant> {
        match self.state {
            State::Made { terms, .. } if terms.given => None,
            State::Made { terms, .. } if terms.by_us => Some(self.used + idle),
            State::Made { .. } => Some(self.used + idle * 2),
            State::Idle | State::Calling { .. } | State::Breaking { .. } => None,
        }
    }

    /// When it is to be broken again, and this node's turns since it was broken last.
    pub(crate) const fn again_at(&self) -> Option<(Instant, u32)> {
        match self.state {
            State::Breaking {
                again: Some(again),
                passed,
                ..
            } => Some((again, passed)),
            _ => None,
        }
    }

    /// The requested link is no longer needed. A series of calls continues if it is needed later.
    pub(crate) fn put_off_calls(&mut self) {
        (self.crossed, self.state) = (self.tries(), State::Idle);
        self.says = None;
    }

    /// The other end broke it, and is answered. A series of calls continues.
    pub(crate) fn confirm_break(&mut self) {
        self.crossed = self.tries();
        self.state = State::Idle;
        self.says = Some(CPdu::BreakConfirm);
    }
}
