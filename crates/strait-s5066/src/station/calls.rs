//! Calls to and from one peer: how the link with it is made and ends (Annex B), and when it isn't
//! called.

use strait_core::{Duration, Instant};

use super::Identity;
use super::context::Context;
use super::settings::Settings;
use crate::arq::Left;
use crate::c_pdu::{CPdu, Ours};
use crate::early::Early;
use crate::link::{Link, State, Unheard};

/// In a net, the pause behind rows of calls without an answer is so many times as long in the end.
const PAUSES_MAX: u32 = 2;

/// A peer that agrees to long numbers and then says that it doesn't know them gets none for so
/// long. That is a link lost in an hour if it says so each time, and no more than an hour if it was
/// a forgery.
const PLAIN_TIME: Duration = Duration::from_secs(3600);

/// A peer's evidence of being a station of `strait`, which has long numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Kin {
    /// It said so in its last call or answer.
    said: bool,
    /// It used long numbers, with whomever, since the first call of a row,
    seen: bool,
    /// and by this link.
    used: bool,
    /// It has none until then, whatever it says.
    plain_until: Option<Instant>,
}

/// Why a peer isn't called for a while.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    until: Option<Instant>,
    /// Rows of calls in a row that it answered none of.
    rows: u32,
    /// Calls that it refused since it accepted one.
    refusals: u32,
}

/// Which ends of a transfer begin anew, and the knowledge of its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Anew {
    /// The sending end, and with it the completely sent data.
    pub(super) send: Option<Left>,
    /// The receiving end.
    pub(super) receive: bool,
    /// With long numbers.
    pub(super) long: bool,
}

impl Anew {
    /// Both ends.
    pub(super) const fn both(long: bool) -> Self {
        Self {
            send: Some(Left::Doubtful),
            receive: true,
            long,
        }
    }
}

/// The reaction to a received call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Judged {
    /// Its caller is called: it says nothing of the data it may have had with this station's call.
    CallBack,
    Accept(Accepted),
}

/// A call that is accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepted {
    pub(super) anew: Anew,
    /// Its caller wants no other served.
    exclusive: bool,
    /// The answer of a station of `strait`.
    says: Option<Ours>,
    /// Its caller is a station of `strait`.
    known: bool,
    /// It makes a link, and isn't the same call once more.
    pub(super) is_new: bool,
}

/// A received acceptance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) anew: Anew,
    ours: Option<Ours>,
}

/// The reaction to another link message of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Nothing.
    Nothing,
    /// Data received by the link is acknowledged: the peer's reaction shows whether it has one.
    Acknowledge,
    /// The same; and data under way is repeated.
    GoOn,
    /// The link is lost, and the peer is informed that it has none.
    Disown,
    /// A call was refused, and the transfer begins anew or continues with the next.
    Refused(Option<Anew>),
    /// The link is over.
    Over(Anew),
}

/// The reaction to an unanswered turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// Nothing.
    Nothing,
    /// Calls are given up for a while.
    GiveUp,
    CallAgain,
    /// The link is over, though the peer didn't say so.
    Forget,
    /// It is considered lost.
    Lose,
    /// Frames ask for an acknowledgement.
    Probe,
}

/// The terms of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// It wants no other served.
    pub(super) exclusive: bool,
    /// The peer is there, as far as is known.
    pub(super) there: bool,
    /// Calls may meet what others send, and aren't heard then.
    pub(super) may_meet: bool,
}

/// Makes and breaks the link with one peer.
#[derive(Debug)]
pub(super) struct Calls {
    link: Link,
    /// Data with calls.
    early: Early,
    kin: Kin,
    pause: Pause,
    /// The last link ended, in any way: the next is made by a call.
    doubtful: bool,
    /// Something else makes links with it.
    is_given: bool,
    /// Long numbers may be agreed on with it, and data goes with calls.
    long: bool,
    early_data: bool,
    calls_max: u32,
    call_pause: Duration,
}

impl Calls {
    /// Of a peer with which there may be `long` numbers, and whose links something else makes if
    /// they are `given`.
    pub(super) const fn new(settings: &Settings, long: bool, is_given: bool) -> Self {
        Self {
            link: Link::new(),
            early: Early::new(),
            kin: Kin {
                said: false,
                seen: false,
                used: false,
                plain_until: None,
            },
            pause: Pause {
                until: None,
                rows: 0,
                refusals: 0,
            },
            doubtful: false,
            is_given,
            long,
            early_data: settings.early_data,
            calls_max: settings.calls_max,
            call_pause: settings.call_pause,
        }
    }

    #[cfg(test)]
    pub(super) const fn configure(&mut self, settings: &Settings) {
        (self.early_data, self.calls_max) = (settings.early_data, settings.calls_max);
    }

    /// How the link stands.
    pub(super) const fn link(&self) -> &Link {
        &self.link
    }

    #[cfg(test)]
    pub(super) const fn early(&self) -> &Early {
        &self.early
    }

    /// Whether it isn't called for a while.
    pub(super) const fn is_paused(&self) -> bool {
        self.pause.until.is_some()
    }

    /// Until when.
    pub(super) const fn paused_until(&self) -> Option<Instant> {
        self.pause.until
    }

    /// Whether it refused calls, and isn't called for a while.
    pub(super) const fn is_refused(&self) -> bool {
        self.is_paused() && self.pause.refusals > 0
    }

    /// Whether it didn't answer calls, and isn't called for a while.
    pub(super) const fn is_silent(&self) -> bool {
        self.is_paused() && self.pause.refusals == 0
    }

    /// Whether it is a station of `strait`, by its last call or answer.
    pub(super) const fn is_ours(&self) -> bool {
        self.kin.said
    }

    /// Whether extensions of `strait` are sent to it, and read.
    pub(super) const fn knows_ours(&self) -> bool {
        self.long && self.kin.plain_until.is_none()
    }

    /// Whether it has shown that it is a station of `strait`, which says so in each call.
    pub(super) const fn is_known_as_ours(&self) -> bool {
        self.knows_ours() && (self.kin.said || self.early.life().is_some())
    }

    /// Whether frames that follow in this transmission aren't accepted.
    pub(super) const fn is_deaf(&self) -> bool {
        self.early.is_deaf()
    }

    /// Whether so many calls were made that the next one waits for a while.
    fn is_row_over(&self) -> bool {
        self.link.tries() >= self.calls_max
    }

    /// It used long numbers, with whomever.
    pub(super) const fn see_long(&mut self) {
        self.kin.seen = true;
    }

    /// It used them by this link.
    pub(super) const fn use_long(&mut self) {
        self.kin.used = true;
    }

    /// It addressed this station.
    pub(super) const fn hear(&mut self) {
        self.pause.rows = 0;
    }

    /// Its transmission is over.
    pub(super) const fn end_hearing(&mut self) {
        self.early.end_hearing();
    }

    /// It doesn't have long numbers, whatever was agreed. If it used them itself, it has become
    /// another kind of station, as its answer to the next call will show, or the message is forged.
    pub(super) fn deny_long(&mut self, now: Instant) {
        if !self.kin.used {
            self.kin.plain_until = Some(now + PLAIN_TIME);
        }
    }

    /// Ends temporary states.
    pub(super) fn advance(&mut self, now: Instant) {
        self.pause.until = self.pause.until.filter(|until| *until > now);
        self.kin.plain_until = self.kin.plain_until.filter(|until| *until > now);
    }

    /// Notes that data went either way.
    pub(super) fn touch(&mut self, now: Instant) {
        self.link.touch(now);
    }

    /// Notes that the peer uses the link.
    pub(super) fn confirm(&mut self, now: Instant) {
        self.link.confirm(now);
    }

    /// Notes that the link may be forged.
    pub(super) const fn doubt(&mut self, now: Instant) {
        self.link.doubt(now);
    }

    /// Notes that it asks for a hard link by it.
    pub(super) const fn claim(&mut self) {
        self.link.claim();
    }

    /// A transmission of others lasted from one moment to another.
    pub(super) fn put_off(&mut self, from: Instant, to: Instant, patience: Duration) {
        self.link.put_off(from, to, patience);
    }

    /// A turn of this station has come.
    pub(super) const fn pass_turn(&mut self) {
        self.link.pass_turn();
    }

    /// Breaks the link.
    pub(super) fn break_off(&mut self) {
        self.link.break_off();
    }

    /// The requested link is no longer needed.
    pub(super) fn put_off_calls(&mut self) {
        self.link.put_off_calls();
    }

    /// The link message leaves.
    pub(super) fn say(&mut self) -> Option<CPdu<'static>> {
        let says = self.link.say()?;
        if matches!(says, CPdu::Request { .. }) {
            self.early.count_call();
        }
        Some(says)
    }

    /// Rejects a call.
    pub(super) fn reject(&mut self, reason: u8) {
        self.link.reject(reason);
    }

    /// Calls it, again if need be. If it is known to accept data with the call, that begins anew
    /// with the first of a series of calls, unless it was given up and not heard since. The last of
    /// a series is as plain as the first to a stranger: the peer may have become another kind of
    /// station, unless it was heard meanwhile to use extensions of `strait`. Where
    /// calls may have collided with others, only the second series ends so: a plain call gives up
    /// the data that went with those before it.
    pub(super) fn call(&mut self, terms: Terms, identity: &mut Identity) -> Anew {
        let next = identity.next_epoch();
        let tries = self.link.tries();
        self.kin.seen &= tries > 0;
        let ends_row = tries > 0 && tries + 1 >= self.calls_max;
        let may_have_met = terms.may_meet && self.pause.rows == 0;
        let last = ends_row && !self.kin.seen && !may_have_met;
        let fresh = !self.early.is_sending();
        let with_data = self.knows_ours() && self.early_data && !last;
        let early = if with_data {
            self.early.call(next)
        } else {
            None
        };
        let ours = self.knows_ours().then(|| early.unwrap_or_default());
        self.link.call(ours, terms.exclusive, terms.there);
        Anew {
            send: (early.is_some() && fresh).then_some(Left::Doubtful),
            receive: false,
            long: true,
        }
    }

    /// Whether an unused link is kept: both ends know the epochs of its frames, so that a call
    /// shows whether the other end still has it, with the data in the same transmission. Breaking
    /// it would take a turn of each end.
    pub(super) const fn keeps_link(&self) -> bool {
        let ours = self.link.is_long() && self.early.is_sending() && self.knows_ours();
        ours && self.link.is_made() && !self.link.has_exclusive()
    }

    /// Calls it over such a link after a long pause, with so much data of this station under way:
    /// it may have begun anew. Whether that is to be a call without data, as its incarnation isn't
    /// known.
    pub(super) fn renew<T>(&mut self, cx: &mut Context<'_, T>, held: usize) -> bool {
        let unused = || self.link.is_unused(cx.now, cx.settings.idle);
        if held > 0 || !self.keeps_link() || !unused() {
            return false;
        }
        self.early.forget_calls();
        let ours = self.early.call(cx.identity.next_epoch());
        if ours.is_some() {
            self.link.renew(ours);
        }
        ours.is_none()
    }

    /// A caller hasn't used its link in time: one of `strait` is asked for it; whether it is.
    pub(super) fn ask_caller(&mut self, identity: &Identity) -> bool {
        self.link.ask_caller(Ours {
            life: Some(identity.life()),
            epoch: None,
        })
    }

    /// Takes the link for made, if something else makes it.
    pub(super) fn give(&mut self, now: Instant) -> bool {
        let given = self.is_given && !self.doubtful && self.link.is_vacant();
        if given {
            self.begin_anew();
            (self.doubtful, self.kin.said) = (false, false);
            self.link.give(now);
        }
        given
    }

    /// Both directions begin anew, as both ends know.
    pub(super) const fn begin_anew(&mut self) {
        self.early.begin_anew();
        self.pause.until = None;
    }

    /// The receiving end begins anew.
    pub(super) const fn receive_anew(&mut self) {
        self.kin.used = false;
    }

    /// Judges a call.
    pub(super) fn judge(
        &mut self,
        exclusive: bool,
        ours: Option<Ours>,
        identity: &mut Identity,
    ) -> Judged {
        let ours = ours.filter(|_| self.knows_ours());
        // Whether data sent with this station's call is to be reported before a link is made: a
        // peer that calls itself and doesn't mention it may have it, or may not.
        let silent = ours.is_some_and(|ours| ours.epoch.is_none());
        if silent && !exclusive && self.link.called_with_data() {
            // It considers this station's call its own link, as its answer shows.
            self.kin.seen = true;
            return Judged::CallBack;
        }
        let known = ours.is_some() || self.is_known_as_ours();
        let (next, life) = (identity.next_epoch(), identity.life());
        self.kin.said = ours.is_some();
        let linked = self.link.is_there();
        // The same request once more, in one transmission.
        let again = self.link.says_accepted();
        let verdict = ours.map(|ours| self.early.hear_call(ours, linked, life, next));
        let anew = match verdict {
            None => {
                self.begin_anew();
                Anew::both(false)
            }
            Some(verdict) => Anew {
                send: verdict.send_anew.then_some(Left::Doubtful),
                receive: verdict.receive_anew,
                long: true,
            },
        };
        Judged::Accept(Accepted {
            anew,
            exclusive,
            says: verdict.map(|verdict| verdict.says),
            known,
            is_new: anew.receive && !again,
        })
    }

    /// Accepts a call. Its caller has `patience` to use the link, which others may lengthen.
    pub(super) fn accept(&mut self, now: Instant, call: &Accepted, patience: &Patience) {
        // A caller whose data arrived knows what it waits for; another may not have heard this
        // station.
        let early = call.says.is_some_and(|says| says.epoch.is_some());
        // One that is claimed is renewed by its caller's word.
        let renewed = call.exclusive && self.link.keeps_others_out();
        let until = match call.exclusive || call.known {
            true => patience.data,
            false => patience.call,
        };
        // Other stations' transmissions in between aren't its caller's fault. One of `strait` is
        // asked whether it has the link, which takes nothing from it; or called, as a call that
        // doesn't mention this station's isn't its own.
        let latest = match call.known {
            true => until,
            false => until.max(patience.at_most),
        };
        let unheard = (!renewed && !early).then(|| Unheard {
            until: now + until,
            latest: now + latest,
            asked: false,
        });
        (self.doubtful, self.pause.until) = (false, None);
        self.link.accept(now, unheard, call.exclusive, call.says);
    }

    /// It accepted this station's call; `expediting`: expedited data may have gone with that.
    /// `None`: it continues a forgotten state.
    pub(super) fn hear_acceptance(
        &mut self,
        ours: Option<Ours>,
        expediting: bool,
    ) -> Option<Answer> {
        let ours = ours.filter(|_| self.knows_ours());
        let long = ours.is_some();
        self.kin.said = long;
        let early = self.link.called_with_data();
        let same = |ours: &Ours| early && self.early.is_answered_by(ours);
        // Another kind of node has no long numbers, but may have accepted expedited data. One of
        // `strait` accepts nothing of a transmission whose call it refuses.
        let untouched = early && self.early.called_once() && (long || !expediting);
        let anew = if let Some(ours) = ours.filter(same) {
            Anew {
                send: None,
                receive: self.early.hear_answer(ours)?,
                long,
            }
        } else {
            self.begin_anew();
            let send = match untouched {
                true => Some(Left::Untaken),
                false => Some(Left::Doubtful),
            };
            Anew {
                send,
                ..Anew::both(long)
            }
        };
        Some(Answer { anew, ours })
    }

    /// The link is made that it accepted.
    pub(super) fn make(&mut self, now: Instant, answer: &Answer) {
        self.early
            .learn_life(answer.ours.and_then(|ours| ours.life));
        (self.pause.refusals, self.pause.until) = (0, None);
        self.doubtful = false;
        self.link.make(now, answer.ours.is_some());
    }

    /// It sent another link message in a transmission that began `since`; `in_use`: data is under
    /// way. `answer_time` is how long an answer takes.
    pub(super) fn hear_word(
        &mut self,
        now: Instant,
        says: CPdu<'_>,
        since: Instant,
        in_use: bool,
        answer_time: Duration,
    ) -> Word {
        match (says, self.link.state()) {
            // It accepts a call that this station didn't make, or made long ago: its link is none
            // of this station's. A forged call may have reached it.
            (CPdu::Accepted { .. }, State::Made { .. }) if self.link.is_unasked(since) => {
                // Or this one is forged: its reaction to an acknowledgement shows it.
                Word::Acknowledge
            }
            (CPdu::Accepted { .. }, _) if self.link.is_unasked(since) => Word::Disown,
            (CPdu::Rejected(_), State::Calling { .. }) => {
                self.link.forget();
                let anew = self.end_row();
                self.pause_refused(now, answer_time);
                Word::Refused(anew)
            }
            // Data under way hasn't arrived. To a station of `strait` an acknowledgement shows that
            // the link is still in use: it takes it back.
            (CPdu::Break(_), State::Made { .. }) if self.link.is_long() && in_use => Word::GoOn,
            (CPdu::Break(_), _) => {
                // It had a link until now, and may have accepted data of this station's calls as
                // its own. A rest between calls is as long as before, and comes as soon.
                let mut rest = self.pause.until;
                if self.is_row_over() {
                    self.link.forget();
                    rest = Some(now + self.call_pause);
                }
                self.doubtful = true;
                self.link.confirm_break();
                self.begin_anew();
                self.pause.until = rest;
                Word::Over(Anew::both(false))
            }
            (CPdu::BreakConfirm, State::Breaking { .. }) => {
                self.link.forget();
                self.doubtful = true;
                self.begin_anew();
                Word::Over(Anew::both(false))
            }
            // It heard a forged break, or this one is forged: its reaction to an acknowledgement
            // shows which, before data does.
            (CPdu::BreakConfirm, State::Made { .. }) => Word::Acknowledge,
            _ => Word::Nothing,
        }
    }

    /// It has a link that this end knows nothing of.
    pub(super) fn disown(&mut self) {
        self.link.disown();
    }

    /// Its call is refused: it has no link any more, and a call of this station that collided with
    /// it is made again.
    pub(super) fn refuse(&mut self, reason: u8) -> Option<Anew> {
        let anew = match self.link.state() {
            State::Idle => None,
            State::Calling { .. } => {
                self.link.forget();
                self.end_row()
            }
            State::Made { .. } | State::Breaking { .. } => Some(self.forget()),
        };
        self.link.reject(reason);
        anew
    }

    /// It refused a call: it is called again soon, and later if it refuses that, too.
    fn pause_refused(&mut self, now: Instant, answer_time: Duration) {
        let pause = answer_time * (2 << self.pause.refusals.min(4));
        self.pause.refusals += 1;
        self.pause.until = Some(now + pause.min(self.call_pause));
    }

    /// Calls end without a link. Data sent with unanswered ones may still continue with the next.
    fn end_row(&mut self) -> Option<Anew> {
        let over = !self.early.is_sending();
        over.then(|| {
            self.begin_anew();
            Anew::both(false)
        })
    }

    /// A turn wasn't answered, and the peer may count as `lost`.
    pub(super) fn miss_answer(
        &mut self,
        now: Instant,
        lost: bool,
        silence: Duration,
        nodes: u32,
    ) -> Unanswered {
        match self.link.state() {
            State::Calling { .. } if self.is_row_over() => {
                self.link.forget();
                (self.pause.rows, self.pause.refusals) = (self.pause.rows + 1, 0);
                // There, the air is of use to others.
                let times = if nodes > 1 {
                    self.pause.rows.min(PAUSES_MAX)
                } else {
                    1
                };
                self.pause.until = Some(now + self.call_pause * times);
                Unanswered::GiveUp
            }
            State::Calling { .. } => Unanswered::CallAgain,
            State::Breaking { tries: 3.., .. } => Unanswered::Forget,
            State::Breaking { .. } => {
                self.link.break_again(now, silence);
                Unanswered::Nothing
            }
            // Data sent behind its call continues with the next.
            State::Made { .. } if lost && self.link.is_renewing() => Unanswered::CallAgain,
            State::Made { .. } if lost => Unanswered::Lose,
            // A call would end the data that the caller has sent by the link.
            State::Made { .. } if self.link.asks_caller() => {
                self.link.ask_again();
                Unanswered::Nothing
            }
            State::Made { .. } => {
                if self.link.is_renewing() {
                    self.link.renew(self.early.call(0));
                }
                Unanswered::Probe
            }
            State::Idle => Unanswered::Nothing,
        }
    }

    /// A link is over without its other end's consent. If there was none, no data of the other end
    /// can have been accepted by it, and earlier data is as doubtful as it was.
    pub(super) fn forget(&mut self) -> Anew {
        let doubt = self.link.is_there() || self.early.doubts();
        self.link.forget();
        self.doubtful = true;
        self.begin_anew();
        if doubt {
            self.early.lose_link();
        }
        Anew::both(false)
    }

    /// The medium is gone, and with it the link.
    pub(super) fn hang_up(&mut self) -> Anew {
        let anew = self.forget();
        self.doubtful = false;
        anew
    }
}

/// How long a caller may take to use the link that it asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// To send its data,
    pub(super) data: Duration,
    /// or to call again,
    pub(super) call: Duration,
    /// whoever else is on the air.
    pub(super) at_most: Duration,
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
