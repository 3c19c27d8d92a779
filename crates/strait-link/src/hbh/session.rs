//! Which lives of the two ends talk to each other.
//!
//! Each end has an incarnation, another number after each start. What an end sends is only read by
//! the life that it was meant for, because both incarnations are part of each frame's check. An
//! incarnation of the other end is believed when it comes with our own, which nobody knows who
//! can't hear us: in a hello, or in the check of a frame that can be read. A made-up or an old
//! hello changes nothing of that.
//!
//! An end that believes none yet sends to the first one that it hears of. If that is of no life,
//! nobody reads what is sent, and the true one says so. An end that believes one and hears of
//! another names it in a hello first, and believes what answers that: whoever reads both ends and
//! puts in a single frame can't.

use strait_core::{Duration, Instant};
use strait_wire::hash::hash64;
use strait_wire::hbh::{Format, Hello, Session as Names};

/// The sessions of one neighbour.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    own: u32,
    format: Format,
    /// The incarnation of the other end that frames are for, once one was heard.
    peer: Option<u32>,
    /// Every hello of that one says that it reads wide frames.
    wide: bool,
    /// It has named ours. What is believed gives way only to another that names ours.
    believed: bool,
    /// The incarnation that the other end named last, believed or not; zero if none.
    heard: u32,
    /// The incarnation that the last hello named, and when it went.
    named: Option<(u32, Instant)>,
    /// A hello is to go as an answer.
    answers: bool,
    /// When one is to go that wants an answer.
    ask_at: Option<Instant>,
    /// The pause before the next one without an answer.
    pause: Duration,
    /// When the only one went that wants an answer; `None` if several do.
    asked: Option<Instant>,
    /// No objection before.
    quiet_until: Instant,
    up: bool,
}

/// What a hello changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// The other end is another than before: what was under way is worth nothing.
    pub(crate) renewed: bool,
    /// It answers ours, which went so long ago.
    pub(crate) took: Option<Duration>,
}

/// Acknowledgements in a row of what was never sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Doubts(u8);

impl Doubts {
    /// So many mean that both ends count by different numbers, and nothing but another life mends
    /// that. Fewer may be somebody else's.
    const MAX: u8 = 3;

    /// Takes note of one that was such, or wasn't. Says whether they are too many.
    pub(crate) const fn note(&mut self, forged: bool) -> bool {
        self.0 = if forged { self.0.saturating_add(1) } else { 0 };
        self.0 >= Self::MAX
    }
}

/// How soon an end may begin another life.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Life {
    renews_from: Instant,
}

impl Life {
    /// None is shorter, so that nobody ends one after the other.
    const MIN: Duration = Duration::from_secs(5);

    /// Begins another, as the two ends don't agree on what came.
    pub(crate) fn renew(&mut self, now: Instant, session: &mut Session) {
        if now >= self.renews_from {
            self.renews_from = now + Self::MIN;
            session.renew(now);
        }
    }
}

impl Session {
    /// The first pause before a hello is repeated.
    const PAUSE: Duration = Duration::from_millis(500);
    /// The longest.
    const PAUSE_MAX: Duration = Duration::from_secs(10);
    /// Objections to frames that can't be read are no more frequent.
    const OBJECTION: Duration = Duration::from_secs(1);

    pub(crate) fn new(incarnation: u32, format: Format) -> Self {
        Self {
            format,
            // Zero stands for nobody.
            own: incarnation.max(1),
            peer: None,
            wide: false,
            believed: false,
            heard: 0,
            named: None,
            answers: false,
            ask_at: None,
            pause: Self::PAUSE,
            asked: None,
            quiet_until: Instant::ZERO,
            up: false,
        }
    }

    /// Begins another life, as if this end had been started anew.
    pub(crate) fn renew(&mut self, now: Instant) {
        let own = hash64(u64::from(self.own), b"renewed") as u32;
        let up = self.up;
        *self = Self::new(own, self.format);
        if up {
            self.set_up(now);
        }
    }

    /// The port came up: says hello, also to an end that is known, as it may be another by now.
    pub(crate) fn set_up(&mut self, now: Instant) {
        self.up = true;
        self.ask(now);
    }

    pub(crate) const fn set_down(&mut self) {
        self.up = false;
    }

    const fn ask(&mut self, now: Instant) {
        self.ask_at = Some(now);
        self.pause = Self::PAUSE;
    }

    /// Names for frames to the other end, once it was heard.
    pub(crate) fn outbound(&self) -> Option<Names> {
        self.peer.map(|receiver| Names {
            sender: self.own,
            receiver,
        })
    }

    /// Whether it reads maps and distances of any length. Nobody changes that by a hello of his
    /// own: all of them have to say so.
    pub(crate) const fn is_wide(&self) -> bool {
        self.wide
    }

    /// The same for frames from it.
    pub(crate) fn inbound(&self) -> Option<Names> {
        self.peer.map(|sender| Names {
            sender,
            receiver: self.own,
        })
    }

    /// A frame could be read, so the other end knows this one.
    pub(crate) const fn confirm(&mut self) {
        if !self.believed {
            self.believed = true;
            self.ask_at = None;
        }
    }

    /// Takes a hello in.
    pub(crate) fn hear(&mut self, now: Instant, hello: Hello) -> Heard {
        let before = self.peer;
        let heard = self.take(now, hello);
        if self.peer == Some(hello.incarnation) {
            self.wide = hello.wide && (self.wide || before != self.peer);
        }
        heard
    }

    fn take(&mut self, now: Instant, hello: Hello) -> Heard {
        let named = self.named.filter(|(_, at)| now.since(*at) < Self::PAUSE);
        let mut heard = Heard::default();
        let answers = self
            .named
            .is_some_and(|(named, _)| named == hello.incarnation);
        let known = !self.believed || self.peer == Some(hello.incarnation) || answers;
        self.heard = hello.incarnation;
        if hello.heard == self.own && known {
            heard.renewed = self.peer.replace(hello.incarnation) != Some(hello.incarnation);
            let asked = self.asked.take().filter(|_| !hello.asks);
            heard.took = asked.map(|asked| now.since(asked));
            (self.believed, self.ask_at) = (true, None);
            // Whoever was asked beside it has had his time.
            self.named = self.named.filter(|(named, _)| *named == hello.incarnation);
            // What answers this one may be on its way: both ends often begin at once.
            let answered = named.is_some_and(|(named, _)| named == hello.incarnation);
            self.answers = hello.asks && !answered;
            return heard;
        }
        if self.peer.is_none() {
            self.peer = Some(hello.incarnation);
            heard.renewed = true;
        }
        if self.peer != Some(hello.incarnation) {
            // Another life, perhaps: it has to say so.
            self.asked = None;
            self.ask(now);
        } else if self.own < hello.incarnation
            || named.is_none_or(|(named, _)| named == hello.incarnation)
        {
            // Of two that have asked at once, before they knew of each other, one answers.
            self.answers = true;
            if !self.believed {
                (self.ask_at, self.pause) = (Some(now + Self::PAUSE_MAX), Self::PAUSE_MAX);
            }
        }
        heard
    }

    /// A frame came that no session of ours explains.
    pub(crate) fn object(&mut self, now: Instant) {
        if now >= self.quiet_until {
            self.quiet_until = now + Self::OBJECTION;
            self.ask(now);
        }
    }

    /// When a hello is to go.
    pub(crate) fn wake(&self) -> Option<Instant> {
        let answer = self.answers.then_some(Instant::ZERO);
        self.up.then_some(answer.or(self.ask_at))?
    }

    /// The hello that is to go now.
    pub(crate) fn hello(&mut self, now: Instant) -> Option<Hello> {
        self.wake().filter(|at| *at <= now)?;
        self.answers = false;
        let asks = self.ask_at.is_some_and(|at| at <= now);
        if asks {
            let first = self.pause == Self::PAUSE;
            self.asked = first.then_some(now);
            self.ask_at = Some(now + self.pause);
            self.pause = (self.pause * 3 / 2).min(Self::PAUSE_MAX);
        }
        self.named = Some((self.heard, now));
        Some(Hello {
            incarnation: self.own,
            heard: self.heard,
            asks,
            wide: self.format == Format::Strait,
            format: self.format,
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Both ends say hello until neither has anything to say now; gives what each heard of news.
    fn talk(now: Instant, a: &mut Session, b: &mut Session) -> [bool; 2] {
        let mut renewed = [false; 2];
        for _ in 0..10 {
            let hello = a.hello(now);
            if let Some(hello) = hello {
                renewed[1] |= b.hear(now, hello).renewed;
            }
            let answer = b.hello(now);
            if let Some(answer) = answer {
                renewed[0] |= a.hear(now, answer).renewed;
            }
            if hello.is_none() && answer.is_none() {
                return renewed;
            }
        }
        panic!("they never stop");
    }

    fn pair() -> (Session, Session) {
        let (mut a, mut b) = (
            Session::new(1, Format::Strait),
            Session::new(2, Format::Strait),
        );
        a.set_up(ms(0));
        b.set_up(ms(0));
        assert_eq!(talk(ms(0), &mut a, &mut b), [true, true]);
        (a, b)
    }

    #[test]
    fn two_ends_know_each_other_after_a_hello_each_way() {
        let (mut a, mut b) = pair();
        assert_eq!(a.outbound(), b.inbound());
        assert_eq!(b.outbound(), a.inbound());
        let names = a.outbound().unwrap();
        assert_eq!((names.sender, names.receiver), (1, 2));
        // One end has named the other, which hasn't named the one yet: a frame does, or a hello.
        assert_eq!((a.wake(), b.wake()), (None, Some(ms(10_000))));
        let mut quiet = b.clone();
        b.confirm();
        assert_eq!(b.wake(), None);
        let asks = quiet.hello(ms(10_000)).unwrap();
        assert!(asks.asks && asks.heard == 1);
        a.hear(ms(10_050), asks);
        quiet.hear(ms(10_100), a.hello(ms(10_050)).unwrap());
        assert_eq!((a.wake(), quiet.wake()), (None, None));
    }

    #[test]
    fn of_two_that_begin_at_once_one_answers() {
        let (mut a, mut b) = (
            Session::new(1, Format::Strait),
            Session::new(2, Format::Strait),
        );
        a.set_up(ms(0));
        b.set_up(ms(0));
        let crossing = [a.hello(ms(0)).unwrap(), b.hello(ms(0)).unwrap()];
        assert!(a.hear(ms(50), crossing[1]).renewed);
        assert!(b.hear(ms(50), crossing[0]).renewed);
        assert_eq!(a.outbound(), b.inbound());
        assert_eq!(b.outbound(), a.inbound());
        assert_eq!(b.hello(ms(50)), None);
        let answer = a.hello(ms(50)).unwrap();
        let heard = b.hear(ms(100), answer);
        let took = Some(Duration::from_millis(100));
        let renewed = false;
        assert_eq!(heard, Heard { renewed, took });
        assert_eq!((a.wake(), b.wake()), (Some(ms(10_050)), None));
    }

    #[test]
    fn an_end_that_nobody_has_named_keeps_to_the_first_it_heard_of() {
        let mut a = Session::new(1, Format::Strait);
        a.set_up(ms(0));
        a.hello(ms(0));
        let other = |incarnation, heard| Hello {
            incarnation,
            heard,
            asks: true,
            wide: true,
            format: Format::Strait,
        };
        a.hear(ms(600), other(99, 0));
        let first = a.outbound();
        assert_eq!(first.map(|names| names.receiver), Some(99));
        assert_eq!(a.hello(ms(600)).map(|it| it.asks), Some(false));
        // A second is asked about, and isn't sent to before it names this end.
        assert!(!a.hear(ms(700), other(2, 0)).renewed);
        assert_eq!(a.outbound(), first);
        let asks = a.hello(ms(700)).unwrap();
        assert_eq!((asks.asks, asks.heard), (true, 2));
        assert!(a.hear(ms(800), other(2, 1)).renewed);
        assert_eq!(a.outbound().map(|names| names.receiver), Some(2));
    }

    #[test]
    fn a_hello_is_repeated_after_growing_pauses_until_it_is_answered() {
        let mut a = Session::new(1, Format::Strait);
        a.set_up(ms(0));
        let mut went = Vec::new();
        for at_ms in 0..5000 {
            if a.hello(ms(at_ms)).is_some() {
                went.push(at_ms);
            }
        }
        assert_eq!(went, [0, 500, 1250, 2375, 4063]);
        a.set_down();
        assert_eq!(a.wake(), None);
    }

    #[test]
    fn a_restarted_neighbour_is_known_by_its_new_incarnation() {
        let (mut a, _) = pair();
        let mut b = Session::new(3, Format::Strait);
        b.set_up(ms(1000));
        assert_eq!(talk(ms(1000), &mut a, &mut b), [true, true]);
        assert_eq!(a.outbound(), b.inbound());
    }

    #[test]
    fn a_made_up_hello_changes_nothing_and_is_asked_about() {
        let (mut a, mut b) = pair();
        let before = a.outbound();
        let forged = Hello {
            incarnation: 99,
            heard: 0,
            asks: true,
            wide: true,
            format: Format::Strait,
        };
        assert_eq!(a.hear(ms(10), forged), Heard::default());
        assert_eq!(a.outbound(), before);
        assert_eq!(talk(ms(10), &mut a, &mut b), [false, false]);
        assert_eq!((a.outbound(), a.wake()), (before, None));
    }

    #[test]
    fn another_life_that_names_this_one_is_believed_when_it_answers() {
        let (mut a, mut b) = pair();
        b.confirm();
        let before = a.outbound();
        let forged = Hello {
            incarnation: 99,
            heard: 1,
            asks: true,
            wide: true,
            format: Format::Strait,
        };
        assert_eq!(a.hear(ms(1010), forged), Heard::default());
        assert_eq!(a.outbound(), before);
        // It is asked, and the one that is there says who it is.
        let asks = a.hello(ms(1010)).unwrap();
        assert_eq!((asks.heard, asks.asks), (99, true));
        assert!(!b.hear(ms(1020), asks).renewed);
        assert!(!a.hear(ms(1030), b.hello(ms(1020)).unwrap()).renewed);
        assert_eq!((a.outbound(), a.wake()), (before, None));
        // One that was named and answers is there.
        a.hear(ms(1040), forged);
        a.hello(ms(1040)).unwrap();
        assert!(a.hear(ms(1050), forged).renewed);
    }

    #[test]
    fn its_own_hello_turned_round_ends_nothing() {
        let (mut a, mut b) = pair();
        b.confirm();
        let before = a.outbound();
        a.object(ms(5000));
        let own = a.hello(ms(5000)).unwrap();
        assert_eq!(a.hear(ms(5010), own), Heard::default());
        assert_eq!(talk(ms(5600), &mut a, &mut b), [false, false]);
        assert_eq!(a.outbound(), before);
    }

    #[test]
    fn an_end_that_begins_another_life_is_known_by_it() {
        let (mut a, mut b) = pair();
        b.confirm();
        let before = a.outbound();
        a.renew(ms(1000));
        assert_eq!(a.outbound(), None);
        assert_eq!(talk(ms(1000), &mut a, &mut b), [true, true]);
        assert_ne!(a.outbound(), before);
        assert_eq!(a.outbound(), b.inbound());
    }

    #[test]
    fn objections_are_rare() {
        let (mut a, mut b) = pair();
        let mut hellos = 0;
        for at_ms in 2000..4000 {
            a.object(ms(at_ms));
            hellos += u32::from(a.wake().is_some());
            talk(ms(at_ms), &mut a, &mut b);
        }
        assert_eq!(hellos, 2);
    }

    #[test]
    fn an_answer_to_a_lone_hello_measures_the_round_trip() {
        let (mut a, mut b) = pair();
        a.object(ms(5000));
        let hello = a.hello(ms(5000)).unwrap();
        b.hear(ms(5050), hello);
        let answer = b.hello(ms(5050)).unwrap();
        let took = a.hear(ms(5100), answer).took;
        assert_eq!(took, Some(Duration::from_millis(100)));
    }
}
