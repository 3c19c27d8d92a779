//! Which lives of the two ends talk to each other.
//!
//! Each end has an incarnation, another number after each start. What an end sends is only read by
//! the life that it was meant for, because both incarnations are part of each frame's check. An
//! incarnation of the other end is believed when it comes with our own, which nobody knows who
//! can't hear us: a made-up or an old hello changes nothing.

use strait_core::{Duration, Instant};
use strait_wire::hbh::{Format, Hello, Session as Names};

/// The sessions of one neighbour.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    own: u32,
    format: Format,
    /// The other end's incarnation, once it has named ours.
    peer: Option<u32>,
    /// The incarnation that the other end named last, believed or not; zero if none.
    heard: u32,
    /// An answer is wanted.
    asking: bool,
    /// The incarnation that the last hello named, and when it went.
    named: (u32, Instant),
    /// When a hello is to go.
    hello_at: Option<Instant>,
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
            own: incarnation.max(1),
            peer: None,
            heard: 0,
            asking: false,
            named: (0, Instant::ZERO),
            hello_at: None,
            pause: Self::PAUSE,
            asked: None,
            quiet_until: Instant::ZERO,
            up: false,
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
        self.asking = true;
        self.hello_at = Some(now);
        self.pause = Self::PAUSE;
    }

    /// Names for frames to the other end, once both know each other.
    pub(crate) fn outbound(&self) -> Option<Names> {
        self.peer.map(|receiver| Names {
            sender: self.own,
            receiver,
        })
    }

    /// The same for frames from it.
    pub(crate) fn inbound(&self) -> Option<Names> {
        self.peer.map(|sender| Names {
            sender,
            receiver: self.own,
        })
    }

    /// Takes a hello in.
    pub(crate) fn hear(&mut self, now: Instant, hello: Hello) -> Heard {
        self.heard = hello.incarnation;
        let answers = hello.heard == self.own;
        self.asking = !answers && self.peer != Some(hello.incarnation);
        let mut heard = Heard::default();
        if answers {
            let before = self.peer.replace(hello.incarnation);
            heard.renewed = before != Some(hello.incarnation);
            heard.took = self.asked.map(|asked| now.since(asked));
        }
        self.asked = None;
        self.pause = Self::PAUSE;
        // What answers this one may be on its way: both ends often begin at once.
        let answered =
            answers && self.named.0 == hello.incarnation && now.since(self.named.1) < Self::PAUSE;
        self.hello_at = (!answers || hello.asks && !answered).then_some(now);
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
        self.hello_at.filter(|_| self.up)
    }

    /// The hello that is to go now.
    pub(crate) fn hello(&mut self, now: Instant) -> Option<Hello> {
        self.wake().filter(|at| *at <= now)?;
        self.hello_at = None;
        if self.asking {
            let first = self.pause == Self::PAUSE;
            self.asked = first.then_some(now);
            self.hello_at = Some(now + self.pause);
            self.pause = (self.pause * 3 / 2).min(Self::PAUSE_MAX);
        }
        self.named = (self.heard, now);
        Some(Hello {
            incarnation: self.own,
            heard: self.heard,
            asks: self.asking,
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
        let (a, b) = pair();
        assert_eq!(a.outbound(), b.inbound());
        assert_eq!(b.outbound(), a.inbound());
        let names = a.outbound().unwrap();
        assert_eq!((names.sender, names.receiver), (1, 2));
        assert_eq!((a.wake(), b.wake()), (None, None));
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
            format: Format::Strait,
        };
        assert_eq!(a.hear(ms(10), forged), Heard::default());
        assert_eq!(a.outbound(), before);
        assert_eq!(talk(ms(10), &mut a, &mut b), [false, false]);
        assert_eq!((a.outbound(), a.wake()), (before, None));
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
