//! Every timer of our endpoint: a nanosecond before its time nothing, at it the event.

use std::collections::VecDeque;

use strait_core::time::{Duration, Instant};
use strait_wire::ip::{TcpFlags, TcpView, tcp_header};

use super::pipe::{content, ends};
use super::profile::{CongestionKind, Rto};
use super::*;

/// Two ends whose packets go where the test says.
pub(super) struct Duo {
    pub(super) a: Endpoint,
    pub(super) b: Endpoint,
    pub(super) now: Instant,
}

pub(super) fn linux() -> Profile {
    Profile::linux(CongestionKind::NewReno)
}

pub(super) fn sent(end: &mut Endpoint, now: Instant) -> Vec<Vec<u8>> {
    let (mut all, mut packet) = (Vec::new(), Vec::new());
    while end.poll_packet(now, &mut packet) {
        all.push(packet.clone());
    }
    all
}

pub(super) fn view(packet: &[u8]) -> TcpView {
    tcp_header(packet).unwrap()
}

impl Duo {
    pub(super) fn new(profile: &Profile, config: impl Fn(&mut TcpConfig)) -> Self {
        let (near, far) = ends(4);
        let made = |local, remote| {
            let mut own = TcpConfig {
                send_octets: 100_000,
                receive_octets: 100_000,
                ..TcpConfig::new(local, remote)
            };
            config(&mut own);
            Endpoint::new(&own, profile.clone())
        };
        Self {
            a: made(near, far),
            b: made(far, near),
            now: Instant::ZERO,
        }
    }

    /// Opens the connection with a round trip of 100 ms.
    pub(super) fn opened(profile: &Profile, config: impl Fn(&mut TcpConfig)) -> Self {
        let mut duo = Self::new(profile, config);
        duo.a.connect(duo.now).unwrap();
        duo.b.accept(duo.now).unwrap();
        for _ in 0..2 {
            duo.turn();
        }
        assert_eq!(duo.a.state(), TcpState::Established);
        assert_eq!(duo.b.state(), TcpState::Established);
        duo
    }

    /// Carries what `a` has to `b` in 50 ms, and what that has back in 50 ms.
    pub(super) fn turn(&mut self) -> (usize, usize) {
        let there = sent(&mut self.a, self.now);
        self.now += Duration::from_millis(50);
        there
            .iter()
            .for_each(|packet| self.b.handle_packet(self.now, packet));
        let back = sent(&mut self.b, self.now);
        self.now += Duration::from_millis(50);
        back.iter()
            .for_each(|packet| self.a.handle_packet(self.now, packet));
        (there.len(), back.len())
    }

    pub(super) fn read(&mut self) -> usize {
        let mut buffer = [0; 100_000];
        self.b.recv(&mut buffer)
    }
}

/// Waits for the end's timer: nothing a nanosecond before, and what it sends at it.
pub(super) fn fires(end: &mut Endpoint, now: Instant) -> (Duration, Vec<Vec<u8>>) {
    let at = end.wake().unwrap();
    assert!(at > now, "{at:?} {now:?}");
    let before = at - Duration::from_nanos(1);
    assert!(sent(end, before).is_empty());
    assert_eq!(end.wake(), Some(at));
    let packets = sent(end, at);
    assert!(end.wake().is_none_or(|next| next > at));
    (at.since(now), packets)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_syn_is_repeated_as_linux_does_and_given_up() {
    let mut duo = Duo::new(&linux(), |_| {});
    duo.a.connect(duo.now).unwrap();
    assert_eq!(sent(&mut duo.a, duo.now).len(), 1);
    let mut now = duo.now;
    let mut seconds = Vec::new();
    while duo.a.state() == TcpState::Connecting {
        let (after, packets) = fires(&mut duo.a, now);
        now += after;
        seconds.push(now.as_nanos() / 1_000_000_000);
        assert!(
            packets
                .iter()
                .all(|packet| view(packet).flags == TcpFlags::SYN)
        );
    }
    assert_eq!(seconds, [1, 2, 3, 4, 5, 7, 11, 19, 35, 67, 131]);
    assert_eq!(duo.a.error(), Some(TcpError::TimedOut));
    assert_eq!(duo.a.wake(), None);
}

#[test]
fn an_answer_to_a_syn_is_repeated_and_given_up() {
    let mut duo = Duo::new(&linux(), |_| {});
    duo.a.connect(duo.now).unwrap();
    duo.b.accept(duo.now).unwrap();
    let syn = sent(&mut duo.a, duo.now).remove(0);
    duo.b.handle_packet(duo.now, &syn);
    assert_eq!(sent(&mut duo.b, duo.now).len(), 1);
    let (mut now, mut times) = (duo.now, 0);
    while duo.b.state() == TcpState::Connecting {
        let (after, packets) = fires(&mut duo.b, now);
        now += after;
        times += packets.len();
    }
    assert_eq!((times, now), (5, Instant::from_secs(63)));
    assert_eq!(duo.b.error(), Some(TcpError::TimedOut));
}

#[test]
fn the_retransmission_timer_and_the_loss_probe() {
    for (profile, first_ms) in [
        // A lone segment: two round trips and the longest delay of an acknowledgement, but no
        // later than the retransmission timeout.
        (linux(), 300),
        (Profile::paper_hf(), 300),
        (
            Profile {
                rto: Rto {
                    min: strait_core::units::Time(ms(1000)),
                    ..Profile::ns3_2012().rto
                },
                ..Profile::ns3_2012()
            },
            1000,
        ),
    ] {
        let mut duo = Duo::opened(&profile, |_| {});
        duo.a.send(b"x");
        assert_eq!(sent(&mut duo.a, duo.now).len(), 1);
        let (after, packets) = fires(&mut duo.a, duo.now);
        assert_eq!(after, ms(first_ms), "{profile:?}");
        assert_eq!(packets.len(), 1);
        assert_eq!(duo.a.counters().retransmissions, 1);
    }
    // Two segments, a steady round trip: the probe comes after two of them and its margin.
    let mut duo = Duo::opened(&linux(), |config| config.nagle = false);
    for _ in 0..100 {
        duo.a.send(&content(2 * 1448));
        duo.turn();
        duo.read();
        duo.turn();
    }
    duo.a.send(&content(2 * 1448));
    assert_eq!(sent(&mut duo.a, duo.now).len(), 2);
    let (after, packets) = fires(&mut duo.a, duo.now);
    assert!((ms(200)..=ms(205)).contains(&after), "{after:?}");
    assert_eq!((packets.len(), view(&packets[0]).payload.len()), (1, 1448));
    let (after, packets) = fires(&mut duo.a, duo.now + after);
    assert!((ms(290)..=ms(500)).contains(&after), "{after:?}");
    assert_eq!(
        packets.len(),
        1,
        "the timeout repeats the oldest segment alone"
    );
}

#[test]
fn round_trips_beyond_the_longest_timeout_repeat_nothing_while_acknowledgements_come() {
    let profile = Profile {
        rto: Rto {
            max: strait_core::units::Time(ms(120)),
            ..linux().rto
        },
        ..linux()
    };
    let mut duo = Duo::opened(&profile, |config| config.nagle = false);
    // A segment each 20 ms, and a way that gets longer until it takes 200 ms and back nothing.
    let mut under_way: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut buffer = [0; 100_000];
    for step in 0..200u64 {
        duo.now += ms(20);
        while under_way.front().is_some_and(|(at, _)| *at <= duo.now) {
            let (_, packet) = under_way.pop_front().unwrap();
            duo.b.handle_packet(duo.now, &packet);
            duo.b.recv(&mut buffer);
            for answer in sent(&mut duo.b, duo.now) {
                duo.a.handle_packet(duo.now, &answer);
            }
        }
        duo.a.send(&content(1448));
        let arrives = duo.now + ms(200.min(20 + step));
        let packets = sent(&mut duo.a, duo.now);
        under_way.extend(packets.into_iter().map(|packet| (arrives, packet)));
    }
    assert!(duo.a.smoothed_rtt().is_some_and(|rtt| rtt > ms(150)));
    assert_eq!(duo.a.counters().retransmissions, 0);
}

#[test]
fn timeouts_double_and_end_the_connection() {
    for (profile, tries, end_s) in [
        (linux(), 15, 900..1100),
        (Profile::ns3_sack(), 15, 500..1000),
    ] {
        let mut duo = Duo::opened(&profile, |_| {});
        duo.a.send(b"x");
        sent(&mut duo.a, duo.now);
        let (mut now, mut count) = (duo.now, 0);
        while duo.a.state() == TcpState::Established {
            let (after, packets) = fires(&mut duo.a, now);
            now += after;
            count += packets.len();
        }
        assert_eq!(duo.a.error(), Some(TcpError::TimedOut));
        assert!((tries..=tries + 2).contains(&count), "{count}");
        assert!(end_s.contains(&(now.as_nanos() / 1_000_000_000)), "{now:?}");
    }
}

#[test]
fn an_acknowledgement_waits_as_the_profile_says() {
    let mut duo = Duo::opened(&Profile::ns3_2012(), |_| {});
    duo.a.send(b"x");
    assert_eq!(duo.turn(), (1, 0));
    let arrived = duo.now - ms(50);
    let (after, packets) = fires(&mut duo.b, arrived);
    assert_eq!((after, packets.len()), (ms(200), 1));
    let mut duo = Duo::opened(&Profile::ns3_2012(), |_| {});
    duo.a.send(&content(1072));
    assert_eq!(duo.turn(), (2, 1), "two segments are acknowledged at once");
    // Linux: the first sixteen at once, later ones every second or after 40 ms and more.
    let mut duo = Duo::opened(&linux(), |_| {});
    for _ in 0..16 {
        duo.a.send(&content(1448));
        assert_eq!(duo.turn(), (1, 1));
    }
    duo.a.send(&content(1448));
    assert_eq!(duo.turn(), (1, 0));
    let arrived = duo.now - ms(50);
    let (after, packets) = fires(&mut duo.b, arrived);
    assert!((ms(40)..=ms(100)).contains(&after), "{after:?}");
    assert_eq!(packets.len(), 1);
}

#[test]
fn a_closed_window_is_probed_ever_more_rarely_and_for_ever() {
    let mut duo = Duo::opened(&linux(), |config| config.receive_octets = 5000);
    duo.a.send(&content(20_000));
    for _ in 0..30 {
        duo.turn();
    }
    let mut gaps = Vec::new();
    for _ in 0..12 {
        let (after, packets) = fires(&mut duo.a, duo.now);
        gaps.push(after.as_millis());
        duo.now += after;
        assert_eq!(packets.len(), 1);
        let probe = view(&packets[0]);
        assert_eq!(probe.payload.len(), 0);
        duo.b.handle_packet(duo.now, &packets[0]);
        let answers = sent(&mut duo.b, duo.now);
        assert_eq!((answers.len(), view(&answers[0]).window), (1, 0));
        duo.a.handle_packet(duo.now, &answers[0]);
    }
    assert!(gaps.windows(2).all(|pair| pair[1] >= pair[0]), "{gaps:?}");
    assert_eq!(*gaps.last().unwrap(), 120_000);
    // The window opens: the other end says so, and everything comes.
    let mut total = duo.read();
    let opened = sent(&mut duo.b, duo.now);
    assert_eq!(opened.len(), 1);
    duo.a.handle_packet(duo.now, &opened[0]);
    for _ in 0..40 {
        duo.turn();
        total += duo.read();
        duo.now = duo.now.max(duo.b.wake().unwrap_or(duo.now));
    }
    assert_eq!(total, 20_000);
    // Without answers, the connection ends.
    let mut duo = Duo::opened(&linux(), |config| config.receive_octets = 2000);
    duo.a.send(&content(20_000));
    for _ in 0..30 {
        duo.turn();
    }
    while duo.a.state() == TcpState::Established {
        let (after, _) = fires(&mut duo.a, duo.now);
        duo.now += after;
    }
    assert_eq!(duo.a.error(), Some(TcpError::TimedOut));
}

#[test]
fn a_silent_connection_is_kept_alive_or_ended() {
    let mut duo = Duo::opened(&linux(), |config| config.keep_alive = true);
    let heard = duo.now - ms(100);
    let (after, packets) = fires(&mut duo.a, heard);
    assert_eq!((after, packets.len()), (Duration::from_secs(7200), 1));
    let mut now = heard + after;
    duo.b.handle_packet(now, &packets[0]);
    let answers = sent(&mut duo.b, now);
    assert_eq!(answers.len(), 1);
    duo.a.handle_packet(now, &answers[0]);
    for probe in 0..10 {
        let (after, packets) = fires(&mut duo.a, now);
        now += after;
        let expected = if probe == 0 { 7200 } else { 75 };
        assert_eq!(after, Duration::from_secs(expected));
        assert_eq!(packets.len(), 1, "the last is a reset");
    }
    assert_eq!(duo.a.error(), Some(TcpError::TimedOut));
}

#[test]
fn the_end_waits_out_of_caution_and_for_the_other_end() {
    let mut duo = Duo::opened(&linux(), |_| {});
    duo.a.close();
    duo.turn();
    assert_eq!(
        (duo.a.state(), duo.b.state()),
        (TcpState::Closing, TcpState::Established)
    );
    duo.b.close();
    duo.turn();
    duo.turn();
    assert_eq!(
        (duo.a.state(), duo.b.state()),
        (TcpState::Closing, TcpState::Closed)
    );
    let entered = duo.now - ms(100);
    let (after, packets) = fires(&mut duo.a, entered);
    assert_eq!((after, packets.len()), (Duration::from_secs(60), 0));
    assert_eq!((duo.a.state(), duo.a.error()), (TcpState::Closed, None));
    // The other end never closes and is silent: that isn't for ever.
    let mut duo = Duo::opened(&linux(), |_| {});
    duo.a.close();
    duo.turn();
    let (after, _) = fires(&mut duo.a, duo.now);
    assert_eq!(after, Duration::from_millis(924_600));
    assert_eq!(duo.a.error(), Some(TcpError::TimedOut));
}
