//! Transmissions as sets of datagrams between a modem and its terminal (MIL-STD-188-110D A.5.2.5):
//! both ends of both directions.

use std::collections::BTreeMap;

use strait_core::time::{Duration, Instant};
use strait_core::waveform::Mode;
use strait_wire::modem_port::fec::{Code, END_MARK, before_end_mark};
use strait_wire::modem_port::udp::Share;

/// Sets that wait for one that lacks packets.
const SETS_MAX: u64 = 64;
/// What a LAN and its hosts may add to the time of a set: latency and jitter (A.5.2.6.3).
const LAN_PATIENCE: Duration = Duration::from_millis(200);

/// How a mode's octets go into sets: the code, the octets of a packet, and whether a block fills
/// whole sets.
pub(crate) fn fit(mode: Mode) -> (Code, usize, bool) {
    let (code, most) = Code::for_rate(mode.rate_bit_s);
    let of_code = u32::from(code.k()) * 8;
    if mode.block_bits == 0 || !mode.block_bits.is_multiple_of(of_code) {
        return (code, most, false);
    }
    let share = (mode.block_bits / of_code) as usize;
    let sets = (share.div_ceil(most)..=share).find(|sets| share.is_multiple_of(*sets));
    (code, share / sets.unwrap_or(share), true)
}

/// A transmission that is given.
#[derive(Debug)]
pub struct Outbound {
    transfer: u16,
    /// Of the next packet.
    number: u16,
    code: Code,
    share: usize,
    first: bool,
    received_by: Option<(u32, u32)>,
    waiting: Vec<u8>,
}

impl Outbound {
    /// A transmission by `mode`; `received`: the modem gives what it receives by it.
    pub fn new(transfer: u16, mode: Mode, received: bool) -> Self {
        let (code, share, _) = fit(mode);
        Self {
            transfer,
            number: 0,
            code,
            share,
            first: true,
            received_by: received.then_some((mode.rate_bit_s, mode.block_bits)),
            waiting: Vec::new(),
        }
    }

    /// Gives octets, as far as they fill sets.
    pub fn give(&mut self, stamp_ms: u32, octets: &[u8], emit: &mut impl FnMut(Share<'_>)) {
        self.waiting.extend_from_slice(octets);
        let set = self.code.set_octets(self.share);
        while self.waiting.len() >= set {
            let data: Vec<u8> = self.waiting.drain(..set).collect();
            self.emit_set(stamp_ms, &data, false, emit);
        }
    }

    /// Gives what is left, and the end mark.
    pub fn end(mut self, stamp_ms: u32, emit: &mut impl FnMut(Share<'_>)) {
        let rest = [&std::mem::take(&mut self.waiting)[..], &END_MARK].concat();
        let set = self.code.set_octets(self.share);
        let sets = rest.len().div_ceil(set);
        for (number, data) in rest.chunks(set).enumerate() {
            self.emit_set(stamp_ms, data, number + 1 == sets, emit);
        }
    }

    fn emit_set(
        &mut self,
        stamp_ms: u32,
        data: &[u8],
        last: bool,
        emit: &mut impl FnMut(Share<'_>),
    ) {
        let first = std::mem::replace(&mut self.first, false);
        for octets in self.code.encode(data, self.share) {
            emit(Share {
                transfer: self.transfer,
                number: self.number,
                hold_off: false,
                last,
                first,
                code: self.code,
                received_by: self.received_by.filter(|_| first),
                stamp_ms,
                octets: &octets,
            });
            self.number = self.number.wrapping_add(1);
        }
    }
}

/// What came of a transmission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// These octets.
    Octets(Vec<u8>),
    /// A set lacks too many packets.
    Lost,
    /// It is over.
    Ended,
}

/// A transmission that is taken.
#[derive(Debug, Default)]
pub struct Inbound {
    transfer: Option<u16>,
    /// The one before it.
    before: Option<u16>,
    over: bool,
    code: Option<Code>,
    /// The set whose turn it is, and the ones behind it.
    next: u64,
    sets: BTreeMap<u64, Set>,
    /// The number after the highest one that came.
    after: u64,
    /// The last octets may be the beginning of an end mark.
    tail: Vec<u8>,
    /// Packets that never came, or too late.
    pub dropped: u64,
}

#[derive(Debug)]
struct Set {
    packets: Vec<Option<Vec<u8>>>,
    last: bool,
    /// Until then more may come.
    until: Instant,
}

impl Inbound {
    /// The transmission that is taken, or was last.
    pub const fn transfer(&self) -> Option<u16> {
        self.transfer
    }

    /// Takes a packet; `rate_bit_s` is that of the transmission.
    pub fn take(&mut self, now: Instant, share: &Share<'_>, rate_bit_s: u32) -> Vec<Came> {
        let mut came = Vec::new();
        if self.transfer != Some(share.transfer) {
            // One that begins is taken whatever its number: a stray number silences none.
            let behind = |known: u16| (share.transfer.wrapping_sub(known) as i16) < 0;
            let late = self.transfer.is_some_and(behind) && !share.first;
            if late || self.before == Some(share.transfer) {
                return came;
            }
            self.finish(&mut came);
            *self = Self {
                transfer: Some(share.transfer),
                before: self.transfer,
                code: Some(share.code),
                ..Self::default()
            };
        }
        let until = now + Self::patience(share, rate_bit_s);
        if !self.over && self.code == Some(share.code) && self.keep(share, until) {
            self.proceed(now, &mut came);
        }
        came
    }

    /// How long a set's packets may take: the time of its data on the air, and a LAN's.
    fn patience(share: &Share<'_>, rate_bit_s: u32) -> Duration {
        let bits = share.code.set_octets(share.octets.len()) as u64 * 8;
        let of_set = Duration::from_millis(bits * 1000 / u64::from(rate_bit_s.max(75)));
        of_set.min(Duration::from_secs(5)) + LAN_PATIENCE
    }

    /// Whether a packet is new.
    fn keep(&mut self, share: &Share<'_>, until: Instant) -> bool {
        let ahead = i64::from(share.number.wrapping_sub(self.after as u16) as i16);
        let Some(number) = self.after.checked_add_signed(ahead) else {
            return false;
        };
        let n = u64::from(share.code.n());
        let (set, at) = (number / n, (number % n) as usize);
        if set < self.next || set >= self.next + SETS_MAX {
            return false;
        }
        self.after = self.after.max(number + 1);
        for missing in self.next..=set {
            self.sets.entry(missing).or_insert_with(|| Set {
                packets: vec![None; n as usize],
                last: false,
                until,
            });
        }
        let Some(set) = self.sets.get_mut(&set) else {
            return false;
        };
        set.last |= share.last;
        let place = &mut set.packets[at];
        let new = place.is_none();
        place.get_or_insert_with(|| share.octets.to_vec());
        new
    }

    /// It is `now`: what lacks packets is given up.
    pub fn tick(&mut self, now: Instant) -> Vec<Came> {
        let mut came = Vec::new();
        self.proceed(now, &mut came);
        came
    }

    /// When [`Inbound::tick`] has something to do.
    pub fn wake(&self) -> Option<Instant> {
        self.sets.get(&self.next).map(|set| set.until)
    }

    fn proceed(&mut self, now: Instant, came: &mut Vec<Came>) {
        while let Some((set, code)) = self.sets.get(&self.next).zip(self.code) {
            let decoded = code.decode(&set.packets);
            if decoded.is_none() && now < set.until {
                return;
            }
            let last = set.last;
            let missing = set.packets.iter().filter(|it| it.is_none()).count();
            if decoded.is_none() {
                self.dropped += missing as u64;
                came.push(Came::Lost);
            }
            self.sets.remove(&self.next);
            self.next += 1;
            self.tail.extend(decoded.unwrap_or_default());
            if last {
                return self.finish(came);
            }
            let ready = self.tail.len().saturating_sub(END_MARK.len() - 1);
            let octets: Vec<u8> = self.tail.drain(..ready).collect();
            if !octets.is_empty() {
                came.push(Came::Octets(octets));
            }
        }
    }

    /// No more of it is taken.
    pub fn finish(&mut self, came: &mut Vec<Came>) {
        if self.transfer.is_none() || std::mem::replace(&mut self.over, true) {
            return;
        }
        self.sets.clear();
        let tail = std::mem::take(&mut self.tail);
        let octets = before_end_mark(&tail);
        if !octets.is_empty() {
            came.push(Came::Octets(octets.to_vec()));
        }
        came.push(Came::Ended);
    }
}

/// A number that nobody guesses by chance.
pub fn any_number() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODE: Mode = Mode {
        rate_bit_s: 2400,
        block_bits: 288,
    };

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// A transmission's packets: each with its octets.
    fn packets(data: &[u8], transfer: u16) -> Vec<(Share<'static>, Vec<u8>)> {
        let mut all = Vec::new();
        let mut emit = |share: Share<'_>| {
            let octets = share.octets.to_vec();
            all.push((
                Share {
                    transfer: share.transfer,
                    number: share.number,
                    hold_off: share.hold_off,
                    last: share.last,
                    first: share.first,
                    code: share.code,
                    received_by: share.received_by,
                    stamp_ms: share.stamp_ms,
                    octets: &[],
                },
                octets,
            ));
        };
        let mut out = Outbound::new(transfer, MODE, false);
        out.give(7, data, &mut emit);
        out.end(8, &mut emit);
        all
    }

    fn take(inbound: &mut Inbound, now: Instant, packet: &(Share<'static>, Vec<u8>)) -> Vec<Came> {
        let share = Share {
            octets: &packet.1,
            ..packet.0
        };
        inbound.take(now, &share, 2400)
    }

    fn octets(came: &[Came]) -> Vec<u8> {
        let octets = came.iter().map(|it| match it {
            Came::Octets(octets) => &octets[..],
            _ => &[],
        });
        octets.flatten().copied().collect()
    }

    /// A.5.2.5: a block fills whole sets where it can.
    #[test]
    fn a_block_fills_whole_sets() {
        // 36 octets in packets of two shares each: 9 or 18 octets, of which 15 are the most.
        let code = Code::new(6, 2).unwrap();
        assert_eq!(fit(MODE), (code, 9, true));
        let odd = Mode {
            block_bits: 290,
            ..MODE
        };
        assert_eq!(fit(odd), (code, 15, false));
    }

    /// A.5.2.4.2, A.5.2.5.2: numbers from 0 on, first and last set are marked, the end mark and
    /// zeros fill the last; A.5.2.5: what comes out is what went in.
    #[test]
    fn a_transmission_comes_out_as_it_went_in() {
        let data: Vec<u8> = (0..100).collect();
        let all = packets(&data, 5);
        // 100 octets and the mark of 8 make six sets of 18.
        assert_eq!(all.len(), 36);
        for (number, (share, octets)) in all.iter().enumerate() {
            assert_eq!(usize::from(share.number), number);
            assert_eq!((share.first, share.last), (number < 6, number >= 30));
            assert_eq!(octets.len(), 9);
        }
        let mut inbound = Inbound::default();
        let came: Vec<Came> = all
            .iter()
            .flat_map(|it| take(&mut inbound, at(0), it))
            .collect();
        assert_eq!(octets(&came), data);
        assert_eq!(came.last(), Some(&Came::Ended));
        assert_eq!(inbound.dropped, 0);
    }

    /// A.5.2.6.3: order, repetition and loss of up to n - k packets a set don't matter.
    #[test]
    fn disorder_and_some_loss_do_not_matter() {
        let data: Vec<u8> = (0..100).collect();
        let mut all = packets(&data, 5);
        // Two of six are enough.
        all.retain(|(share, _)| [1, 4].contains(&(share.number % 6)));
        all.reverse();
        let mut inbound = Inbound::default();
        let came: Vec<Came> = all
            .iter()
            .chain(&all)
            .flat_map(|it| take(&mut inbound, at(0), it))
            .collect();
        assert_eq!(octets(&came), data);
        assert_eq!(came.iter().filter(|it| **it == Came::Ended).count(), 1);
    }

    /// A.5.2.6.3: a set that lacks packets is waited for as long as its data last on the air and a
    /// LAN may take, not longer; what comes later is dropped.
    #[test]
    fn a_set_that_lacks_packets_is_given_up_in_time() {
        let data: Vec<u8> = (0..100).collect();
        let mut all = packets(&data, 5);
        let late = all.remove(6);
        all.retain(|(share, _)| !(7..11).contains(&share.number));
        let mut inbound = Inbound::default();
        let came: Vec<Came> = all
            .iter()
            .flat_map(|it| take(&mut inbound, at(0), it))
            .collect();
        assert_eq!(
            octets(&came),
            data[..11],
            "what may be part of the mark waits"
        );
        let wake = inbound.wake().unwrap();
        assert_eq!(wake, at(60 + 200), "18 octets by 2400 bit/s, and a LAN");
        let before = Instant::from_nanos(wake.as_nanos() - 1);
        assert_eq!(inbound.tick(before), []);
        let came = inbound.tick(wake);
        assert_eq!(came[0], Came::Lost);
        assert_eq!(octets(&came), [&data[11..18], &data[36..]].concat());
        assert_eq!(came.last(), Some(&Came::Ended));
        assert_eq!(take(&mut inbound, wake, &late), []);
        assert_eq!(inbound.dropped, 5);
    }

    /// A.5.2.4.2: transfers count on; packets of one that is past are none of the next.
    #[test]
    fn a_new_transfer_ends_the_one_before() {
        let mut inbound = Inbound::default();
        let old = packets(&[1; 60], 0xffff);
        let came: Vec<Came> = old[..12]
            .iter()
            .flat_map(|it| take(&mut inbound, at(0), it))
            .collect();
        assert_eq!(octets(&came), [1; 29]);
        let new = packets(&[2; 60], 0);
        let came = take(&mut inbound, at(1), &new[0]);
        assert_eq!(came, [Came::Octets(vec![1; 7]), Came::Ended]);
        assert_eq!(take(&mut inbound, at(1), &old[13]), []);
        assert_eq!(inbound.transfer(), Some(0));
    }

    /// A lone packet of any transfer costs the one under way, and none that follow it.
    #[test]
    fn a_transfer_s_number_silences_none_that_follow() {
        let data: Vec<u8> = (0..100).collect();
        for ahead in [1, 0x7fff, 0x8000, 0xffff] {
            let mut inbound = Inbound::default();
            for packet in &packets(&data, 5)[..12] {
                take(&mut inbound, at(0), packet);
            }
            let stray = packets(&data, 5u16.wrapping_add(ahead)).remove(0);
            take(&mut inbound, at(1), &stray);
            let next = packets(&data, 7);
            let came: Vec<Came> = next
                .iter()
                .flat_map(|it| take(&mut inbound, at(2), it))
                .collect();
            assert_eq!(octets(&came), data, "{ahead}");
        }
    }

    /// A.5.2.6.3: packets of the transfer before are late, its first ones too.
    #[test]
    fn late_packets_of_the_transfer_before_are_ignored() {
        let old = packets(&[1; 60], 5);
        let mut inbound = Inbound::default();
        for packet in &old {
            take(&mut inbound, at(0), packet);
        }
        take(&mut inbound, at(1), &packets(&[2; 60], 6)[0]);
        assert_eq!(take(&mut inbound, at(1), &old[0]), []);
        assert_eq!(inbound.transfer(), Some(6));
    }

    /// Whatever numbers come, only so many sets are kept.
    #[test]
    fn sets_that_wait_are_bounded() {
        let mut inbound = Inbound::default();
        let (mut share, octets) = packets(&[1; 18], 1).remove(0);
        for number in (0..=0xffffu16).step_by(5) {
            share.number = number;
            take(&mut inbound, at(0), &(share, octets.clone()));
        }
        assert!(inbound.sets.len() <= SETS_MAX as usize);
    }

    /// A.5.2.4.2: more packets than numbers.
    #[test]
    fn numbers_run_over() {
        let mut inbound = Inbound::default();
        let data: Vec<u8> = (0..220_000u32).map(|at| at as u8).collect();
        let mut count = 0;
        for packet in packets(&data, 1) {
            count += octets(&take(&mut inbound, at(0), &packet)).len();
        }
        assert_eq!(count, data.len());
    }
}
