//! Which flows are worth a try.

use core::hash::{Hash, Hasher};
use core::net::IpAddr;

use strait_wire::ip::{PacketInfo, protocol};

/// Flows that are remembered. Two that meet in one place forget each other, which costs a try.
const FLOWS: usize = 256;

/// The most packets of a flow that are left alone after one that didn't get shorter, as a power of
/// two: a flow that changes its nature is found out after so many.
const SKIPPED_LOG2_MAX: u8 = 8;

/// Ports whose contents are encrypted: SSH, SMTP, HTTPS (QUIC too), and mail, DNS, SIP over TLS.
const ENCRYPTED: [u16; 9] = [22, 443, 465, 500, 853, 993, 995, 4500, 5061];

/// One flow.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    key: u32,
    /// Tries in a row that didn't help.
    misses: u8,
    /// Packets to leave alone.
    skips: u16,
}

/// What is known of flows.
#[derive(Debug)]
pub(super) struct Flows([Flow; FLOWS]);

impl Default for Flows {
    fn default() -> Self {
        Self([Flow::default(); FLOWS])
    }
}

/// A flow as its next packet finds it.
pub(super) struct Next<'a> {
    flow: &'a mut Flow,
    encrypted: bool,
}

impl Flows {
    /// The flow that a packet belongs to.
    pub(super) fn of(&mut self, packet: &PacketInfo) -> Next<'_> {
        let key = key(packet);
        let flow = &mut self.0[key as usize % FLOWS];
        if flow.key != key {
            *flow = Flow {
                key,
                ..Flow::default()
            };
        }
        Next {
            flow,
            encrypted: is_encrypted(packet),
        }
    }
}

impl Next<'_> {
    /// Whether the packet is tried at all.
    pub(super) const fn is_tried(&mut self) -> bool {
        if self.encrypted {
            return false;
        }
        let tried = self.flow.skips == 0;
        self.flow.skips = self.flow.skips.saturating_sub(1);
        tried
    }

    /// Takes note of what a try came to.
    pub(super) fn tell(&mut self, shorter: bool) {
        if shorter {
            (self.flow.misses, self.flow.skips) = (0, 0);
            return;
        }
        self.flow.misses = (self.flow.misses + 1).min(SKIPPED_LOG2_MAX);
        self.flow.skips = (1 << self.flow.misses) - 1;
    }
}

fn is_encrypted(packet: &PacketInfo) -> bool {
    let ports = packet
        .ports
        .is_some_and(|(from, to)| ENCRYPTED.contains(&from) || ENCRYPTED.contains(&to));
    packet.protocol == protocol::ESP || ports
}

/// The same number for the same flow; FNV-1a over what makes one.
fn key(packet: &PacketInfo) -> u32 {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for octet in bytes {
                self.0 = (self.0 ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    for address in [packet.src, packet.dst] {
        match address {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()),
        }
    }
    packet.protocol.hash(&mut hasher);
    let (from, to) = packet.ports.unwrap_or_default();
    hasher.write(&from.to_be_bytes());
    hasher.write(&to.to_be_bytes());
    (hasher.finish() >> 24) as u32
}

/// Whether octets come about as often as each other, as in ciphertext and in what is compressed:
/// by how many pairs of them are equal. Of random octets one pair in 256 is, of text one in 15.
pub(super) fn looks_random(octets: &[u8]) -> bool {
    // Headers in front aren't random, and few octets say nothing.
    const SAMPLE_MIN: u64 = 256;
    let mut counts = [0u64; 256];
    for octet in octets {
        counts[usize::from(*octet)] += 1;
    }
    let all = octets.len() as u64;
    let pairs: u64 = counts
        .iter()
        .map(|count| count * count.saturating_sub(1))
        .sum();
    // At most 1.35 times as many equal pairs as chance gives.
    all >= SAMPLE_MIN && pairs * 256 * 20 <= 27 * all * (all - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use strait_wire::hash::hash64;
    use strait_wire::ip::build_udp;

    fn packet(port: u16) -> PacketInfo {
        let mut bytes = Vec::new();
        let (from, to) = (
            "10.0.0.1:5000".parse().unwrap(),
            ([10, 0, 0, 2], port).into(),
        );
        build_udp(from, to, 0, 64, 0, 0, &[1; 9], &mut bytes);
        PacketInfo::parse(&bytes).unwrap()
    }

    #[test]
    fn a_flow_that_gains_nothing_is_tried_ever_more_rarely_and_one_gain_ends_that() {
        let mut flows = Flows::default();
        let mut tried = Vec::new();
        for number in 0..600 {
            let mut flow = flows.of(&packet(80));
            if flow.is_tried() {
                tried.push(number);
                flow.tell(false);
            }
        }
        assert_eq!(tried, [0, 2, 6, 14, 30, 62, 126, 254, 510]);
        // Another flow isn't concerned.
        assert!(flows.of(&packet(81)).is_tried());
        let mut flow = flows.of(&packet(80));
        flow.tell(true);
        assert!(flow.is_tried() && flow.is_tried());
    }

    #[test]
    fn what_is_encrypted_is_never_tried() {
        let mut flows = Flows::default();
        for (port, tried) in [(443, false), (22, false), (80, true), (25, true)] {
            assert_eq!(flows.of(&packet(port)).is_tried(), tried, "{port}");
        }
        let esp = PacketInfo {
            protocol: protocol::ESP,
            ..packet(80)
        };
        assert!(!flows.of(&esp).is_tried());
    }

    #[test]
    fn random_octets_look_random_and_text_does_not() {
        for seed in 0..200 {
            let random: Vec<u8> = (0..1400)
                .map(|at| hash64(seed, &[at as u8, (at >> 8) as u8]) as u8)
                .collect();
            assert!(looks_random(&random), "{seed}");
            assert!(looks_random(&random[..256]) || seed > 0);
            assert!(!looks_random(&random[..255]));
        }
        let text = include_bytes!("dictionary.txt");
        assert!(text.chunks_exact(300).all(|piece| !looks_random(piece)));
        // Base64 has six bits an octet: it gains a quarter.
        let base64: Vec<u8> = (0..1400)
            .map(|at| b'A' + hash64(3, &[at as u8, (at >> 8) as u8]) as u8 % 64)
            .collect();
        assert!(!looks_random(&base64));
    }
}
