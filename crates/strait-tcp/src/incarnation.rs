//! One connection after another between the same ends, one sentence a test.

use strait_core::time::Instant;
use strait_wire::ip::TcpFlags;

use super::clocks::{Duo, fires, linux, sent, view};
use super::pipe::{content, ends};
use super::segment::{Options, Outgoing};
use super::*;

const RESET: TcpFlags = TcpFlags::RST;

/// Gives every packet to the end.
fn give(end: &mut Endpoint, now: Instant, packets: &[Vec<u8>]) {
    packets
        .iter()
        .for_each(|packet| end.handle_packet(now, packet));
}

/// The end that opened the connection, newly started: it knows of nothing.
fn forgetful(profile: &Profile, seed: u64) -> Endpoint {
    let (near, far) = ends(4);
    let config = TcpConfig {
        seed,
        ..TcpConfig::new(near, far)
    };
    Endpoint::new(&config, profile.clone())
}

/// A segment of the end that opened the connection.
fn forged(seq: u32, flags: TcpFlags, stamp: Option<u32>) -> Vec<u8> {
    let mut out = Vec::new();
    let outgoing = Outgoing {
        seq,
        ack: 0,
        flags,
        window: 1000,
        options: Options {
            timestamps: stamp.map(|stamp| (stamp, 0)),
            ..Options::default()
        },
        ecn_capable: false,
        dont_fragment: true,
        ident: 0,
    };
    outgoing.write(ends(4), &mut out, |_| {});
    out
}

/// RFC 9293 section 3.5.1, figure 9: the SYN is answered with an acknowledgement, that with a
/// reset, and the SYN's repetition opens the connection.
#[test]
fn a_half_open_connection_is_found_by_the_end_that_forgot_it() {
    for profile in [linux(), Profile::ns3_2012(), Profile::paper_hf()] {
        let mut duo = Duo::opened(&profile, |_| {});
        duo.a = forgetful(&profile, 77 << 32 | 9);
        duo.a.connect(duo.now).unwrap();
        let syn = sent(&mut duo.a, duo.now);
        give(&mut duo.b, duo.now, &syn);
        let answer = sent(&mut duo.b, duo.now);
        assert_eq!(answer.len(), 1);
        assert_eq!(view(&answer[0]).flags, TcpFlags::ACK);
        assert_eq!(duo.b.state(), TcpState::Established);
        give(&mut duo.a, duo.now, &answer);
        let reset = sent(&mut duo.a, duo.now);
        assert_eq!(
            (view(&reset[0]).flags, view(&reset[0]).seq),
            (RESET, view(&answer[0]).ack)
        );
        assert_eq!(duo.a.state(), TcpState::Connecting);
        give(&mut duo.b, duo.now, &reset);
        assert_eq!(
            (duo.b.state(), duo.b.error()),
            (TcpState::Closed, Some(TcpError::Reset))
        );
        let (_, again) = fires(&mut duo.a, duo.now);
        assert_eq!(view(&again[0]).flags, TcpFlags::SYN);
    }
}

/// RFC 9293 section 3.5.1, figure 10.
#[test]
fn data_for_a_forgotten_connection_is_answered_with_a_reset() {
    let mut duo = Duo::opened(&linux(), |_| {});
    duo.a.send(b"x");
    let data = sent(&mut duo.a, duo.now);
    duo.b = Duo::new(&linux(), |config| config.seed = 5 << 32).b;
    duo.b.accept(duo.now).unwrap();
    give(&mut duo.b, duo.now, &data);
    let reset = sent(&mut duo.b, duo.now);
    assert_eq!(
        (view(&reset[0]).flags, view(&reset[0]).seq),
        (RESET, view(&data[0]).ack)
    );
    assert_eq!(duo.b.state(), TcpState::Listening);
    give(&mut duo.a, duo.now, &reset);
    assert_eq!(duo.a.error(), Some(TcpError::Reset));
}

#[test]
fn another_connections_syn_meets_a_young_one_as_it_meets_an_old_one() {
    let mut duo = Duo::new(&linux(), |_| {});
    duo.a.connect(duo.now).unwrap();
    duo.b.accept(duo.now).unwrap();
    let syn = sent(&mut duo.a, duo.now);
    give(&mut duo.b, duo.now, &syn);
    let answer = sent(&mut duo.b, duo.now);
    give(&mut duo.b, duo.now, &[forged(1 << 30, TcpFlags::SYN, None)]);
    let challenge = sent(&mut duo.b, duo.now);
    assert_eq!(challenge.len(), 1);
    let (challenge, answer) = (view(&challenge[0]), view(&answer[0]));
    assert_eq!(challenge.flags, TcpFlags::ACK);
    // The SYN is sent and takes a number.
    assert_eq!(
        (challenge.seq, challenge.ack),
        (answer.seq.wrapping_add(1), answer.ack)
    );
    assert_eq!(duo.b.state(), TcpState::Connecting);
    give(&mut duo.b, duo.now, &[forged(answer.ack, RESET, None)]);
    assert_eq!(duo.b.error(), Some(TcpError::Reset));
}

/// The end has sent octets and closed, and the other end has closed: it is in LAST-ACK.
fn closing(acked: bool) -> Duo {
    let mut duo = Duo::opened(&linux(), |_| {});
    duo.a.close();
    duo.turn();
    duo.turn();
    duo.b.send(b"last words");
    if acked {
        duo.turn();
        duo.turn();
    }
    duo.b.close();
    assert_eq!(sent(&mut duo.b, duo.now).len(), 1);
    duo
}

#[test]
fn a_reset_after_both_have_closed_is_an_error_only_if_data_may_be_lost() {
    for (acked, error) in [(false, Some(TcpError::Reset)), (true, None)] {
        let mut duo = closing(acked);
        // A's stream is its SYN and its FIN.
        give(&mut duo.b, duo.now, &[forged(2, RESET, None)]);
        assert_eq!(duo.b.state(), TcpState::Closed);
        assert_eq!(duo.b.error(), error, "{acked}");
    }
}

/// The end that accepted the connection closed it first and waits out of caution.
fn waiting(profile: &Profile) -> Duo {
    let mut duo = Duo::opened(profile, |_| {});
    duo.b.send(&content(100));
    duo.b.close();
    duo.turn();
    duo.turn();
    duo.a.close();
    let fin = sent(&mut duo.a, duo.now);
    give(&mut duo.b, duo.now, &fin);
    let last = sent(&mut duo.b, duo.now);
    assert_eq!(last.len(), 1);
    give(&mut duo.a, duo.now, &last);
    assert_eq!(
        (duo.a.state(), duo.b.state()),
        (TcpState::Closed, TcpState::Closing)
    );
    duo
}

/// Else a client whose clock began anew finds the port shut for as long as the wait lasts.
#[test]
fn only_an_exact_reset_ends_the_wait_out_of_caution() {
    // A's stream is its SYN and its FIN.
    for (seq, ends) in [(1, false), (2, true), (3, false)] {
        let mut duo = waiting(&linux());
        give(&mut duo.b, duo.now, &[forged(seq, RESET, None)]);
        assert_eq!(duo.b.state() == TcpState::Closed, ends, "{seq}");
        assert_eq!(duo.b.error(), None);
    }
}

#[test]
fn who_waits_out_of_caution_makes_way_for_what_is_surely_new() {
    let duo = waiting(&linux());
    // The next numbers after A's SYN and FIN, and after B's SYN, 100 octets and FIN.
    let (expected, own) = (2u32, 102);
    // A's clock began with 1, and its FIN has just been sent.
    let stamp = 1 + (duo.now.as_nanos() / 1_000_000) as u32;
    for (seq, stamp, makes) in [
        (expected, stamp, false),
        (expected + 1, stamp, true),
        (expected.wrapping_sub(9), stamp, false),
        (expected.wrapping_sub(9), stamp.wrapping_add(1), true),
        (expected + 1, stamp.wrapping_sub(1), false),
    ] {
        let syn = forged(seq, TcpFlags::SYN, Some(stamp));
        let initial = makes.then_some(own + 65_537);
        assert_eq!(duo.b.makes_way(&syn), initial, "{seq} {stamp}");
        for flag in [TcpFlags::ACK, RESET, TcpFlags::FIN] {
            let other = forged(seq, TcpFlags::SYN | flag, Some(stamp));
            assert_eq!(duo.b.makes_way(&other), None);
        }
    }
    // Without a timestamp, the sequence number decides.
    for (seq, makes) in [(expected, false), (expected + 1, true)] {
        let syn = forged(seq, TcpFlags::SYN, None);
        assert_eq!(duo.b.makes_way(&syn).is_some(), makes);
        let data = forged(seq, TcpFlags::ACK, None);
        assert_eq!(duo.b.makes_way(&data), None);
    }
    // Who doesn't wait makes no way.
    let syn = forged(1 << 20, TcpFlags::SYN, None);
    assert_eq!(Duo::opened(&linux(), |_| {}).b.makes_way(&syn), None);
    assert_eq!(closing(true).b.makes_way(&syn), None);
}
