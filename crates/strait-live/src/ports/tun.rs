//! The host side of a live node: a TUN interface, whole IP packets of both families; or a TAP
//! interface, Ethernet frames.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::libc;
use strait_core::id::NeighbourId;
use strait_core::id::Neighbours;
use strait_core::node::{Notice, PortState, Room, TxMeta};
use strait_core::rate::LineRate;
use strait_core::time::{Duration, Instant};
use strait_wire::ethernet::HEADER_OCTETS;

use super::{IoCounts, PortIo, Received, Sent, is_not_now};
use crate::error::{Doing, Error};
use crate::kernel::netlink::Netlink;

/// `ioctl`s of `/dev/net/tun` (Linux `if_tun.h`).
#[allow(unsafe_code, reason = "ioctl has no safe wrapper")]
mod ioctl {
    use super::{AsRawFd, Errno, File, libc};

    nix::ioctl_write_ptr_bad!(
        tun_set_iff,
        nix::request_code_write!(b'T', 202, size_of::<libc::c_int>()),
        libc::ifreq
    );
    nix::ioctl_read_bad!(
        tun_get_iff,
        nix::request_code_read!(b'T', 210, size_of::<libc::c_uint>()),
        libc::ifreq
    );

    nix::ioctl_write_int_bad!(
        tun_set_offload,
        nix::request_code_write!(b'T', 208, size_of::<libc::c_uint>())
    );

    /// Switches every offload off: a reader that didn't ask must not be given super-frames.
    pub(super) fn clear_offload(file: &File) -> Result<(), Errno> {
        // SAFETY: the descriptor is open; the argument is a number, not a pointer.
        unsafe { tun_set_offload(file.as_raw_fd(), 0) }.map(drop)
    }

    /// Attaches `file` to the interface `name`, made if there is none; `name` may be empty or
    /// hold `%d`. Returns the name that the interface has.
    pub(super) fn attach(file: &File, name: &str, flags: i32) -> Result<String, Errno> {
        // SAFETY: `ifreq` is plain data for which all octets zero is a valid value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: the descriptor is open, and `request` is an `ifreq` as the call expects.
        unsafe { tun_set_iff(file.as_raw_fd(), &raw const request) }?;
        Ok(read_name(&request))
    }

    /// The flags that the kernel says the interface has.
    pub(super) fn flags(file: &File) -> Result<i32, Errno> {
        // SAFETY: as above.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open, and `request` is an `ifreq` that the call fills in.
        unsafe { tun_get_iff(file.as_raw_fd(), &raw mut request) }?;
        // SAFETY: TUNGETIFF sets the flags member of the union, which is plain data anyway.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        Ok(i32::from(flags) & 0xffff)
    }

    fn read_name(request: &libc::ifreq) -> String {
        let octets = request.ifr_name.iter().take_while(|octet| **octet != 0);
        octets.map(|octet| char::from(*octet as u8)).collect()
    }
}

/// What a TUN interface is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunConfig {
    /// Its name, at most 15 octets.
    pub interface: String,
    /// Its addresses with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its maximum transmission unit in octets.
    pub mtu: u32,
}

/// A TUN interface as a port. It lasts as long as it is open: the kernel removes it, its
/// addresses and its routes with the descriptor, also after a kill. (An interface that somebody
/// made persistent before is used too, and stays.)
#[derive(Debug)]
pub struct TunPort {
    config: TunConfig,
    /// The kernel may answer by another interface what came by this one.
    one_of_several: bool,
    /// What the kernel's TCP waits for an acknowledgement at least.
    patience: Option<Duration>,
    /// Of a TAP.
    ethernet: Option<Ethernet>,
    file: Option<File>,
    counts: IoCounts,
}

/// What a TAP interface has beyond a TUN interface.
#[derive(Clone, Debug)]
struct Ethernet {
    /// The bridge that it becomes a port of.
    bridge: Option<String>,
    ration: Ration,
}

/// How many frames of an Ethernet are heard. All stations hear a storm of questions there; a
/// gateway that runs ahead of other programs would do nothing else, nor would they. What is too
/// much stays in the interface's queue, which drops what it can't hold.
#[derive(Clone, Debug, Default)]
struct Ration {
    /// End of the time for which the frames are counted.
    until: Instant,
    frames: u32,
}

impl Ration {
    /// 32,000 frames a second, more than any link takes that is worth a gateway.
    const FRAMES: u32 = 256;
    const EACH: Duration = Duration::from_millis(8);

    /// Whether a frame may be heard now.
    fn allows(&mut self, now: Instant) -> bool {
        if now >= self.until {
            self.until = now + Self::EACH;
            self.frames = 0;
        }
        self.frames < Self::FRAMES
    }

    /// While no more are heard: until when.
    fn rests(&self) -> Option<Instant> {
        (self.frames >= Self::FRAMES).then_some(self.until)
    }
}

/// Rate that the host side reports: no line stands behind it.
const HOST_RATE: LineRate = LineRate::new(1_000_000_000, 8);

impl TunPort {
    /// A port that isn't open yet.
    pub const fn new(config: TunConfig) -> Self {
        Self {
            config,
            one_of_several: false,
            patience: None,
            ethernet: None,
            file: None,
            counts: IoCounts {
                strangers: 0,
                chatter: 0,
                refused: 0,
                backlog_octets_max: 0,
            },
        }
    }

    /// The same, where the kernel's TCP waits for an acknowledgement at least so long: what stands
    /// behind another packet on a slow line isn't lost.
    pub(crate) const fn patient(mut self, patience: Option<Duration>) -> Self {
        self.patience = patience;
        self
    }

    /// The same, one of several interfaces of a gateway.
    pub(crate) const fn one_of_several(mut self) -> Self {
        self.one_of_several = true;
        self
    }

    /// The same on an Ethernet: a TAP interface, perhaps as a port of the bridge with a name. The
    /// kernel's own end of it is a station like others, and is let speak.
    pub fn tap(config: TunConfig, bridge: Option<String>) -> Self {
        Self {
            ethernet: Some(Ethernet {
                bridge,
                ration: Ration::default(),
            }),
            ..Self::new(config)
        }
    }

    fn rests(&self) -> Option<Instant> {
        self.ethernet.as_ref()?.ration.rests()
    }

    const fn frame_octets_max(&self) -> u32 {
        let header = if self.ethernet.is_some() {
            HEADER_OCTETS as u32
        } else {
            0
        };
        self.config.mtu + header
    }

    fn attach(&self) -> Result<File, Error> {
        let name = &self.config.interface;
        let (kind, flag) = match self.ethernet {
            Some(_) => ("TAP", libc::IFF_TAP),
            None => ("TUN", libc::IFF_TUN),
        };
        let doing = || format!("create {kind} interface `{name}`");
        if name.is_empty() || name.len() >= libc::IFNAMSIZ {
            return Err(Error::invalid(doing(), "a name has 1 to 15 octets"));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")
            .doing(|| "open /dev/net/tun")?;
        let wanted = flag | libc::IFF_NO_PI;
        ioctl::attach(&file, name, wanted).doing(doing)?;
        // A persistent interface keeps what another program set on it, and with offload it
        // would hand us super-frames that no link can carry.
        ioctl::clear_offload(&file).doing(|| format!("switch off offload of `{name}`"))?;
        let flags = ioctl::flags(&file).doing(doing)?;
        let unfit = libc::IFF_VNET_HDR | libc::IFF_MULTI_QUEUE;
        if flags & wanted != wanted || flags & unfit != 0 {
            let why = format!("an interface of this name exists with other flags ({flags:#x})");
            let remedy = format!("remove it first: ip link delete {name}");
            return Err(Error::invalid(doing(), why).with_remedy(remedy));
        }
        Ok(file)
    }

    fn set_up(&self) -> Result<(), Error> {
        let name = self.config.interface.as_str();
        let mut netlink = Netlink::open()?;
        let link = netlink.link(name)?;
        netlink.set_mtu(link.index, name, self.config.mtu)?;
        match &self.ethernet {
            None => {
                quieten(name)?;
                if self.one_of_several {
                    check_loosely(name)?;
                }
                take_own(name);
                // Daemons that announce themselves (mDNS and its like) do so on every interface
                // that does multicast.
                netlink.set_multicast(link.index, name, false)?;
            }
            Some(Ethernet { bridge, .. }) => {
                if let Some(bridge) = bridge {
                    netlink.join_bridge(link.index, name, bridge)?;
                }
            }
        }
        for (address, length) in &self.config.addresses {
            netlink.add_address(link.index, name, *address, *length)?;
        }
        netlink.set_up(link.index, name, true)?;
        for (address, length) in &self.config.addresses {
            let Some(patience) = self.patience else { break };
            // Without it, connections repeat what isn't lost, but work.
            if let Err(error) = netlink.set_patience(link.index, *address, *length, patience) {
                tracing::warn!(interface = name, %error, "TCP won't wait for the line");
            }
        }
        Ok(())
    }
}

/// Has the kernel take packets whose sources it knows at any interface. A strict check drops what
/// comes by one host side from where another one leads (RFC 3704 section 2.4).
fn check_loosely(name: &str) -> Result<(), Error> {
    let path = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
    std::fs::write(&path, "2").doing(|| format!("set {path}"))
}

/// Has the kernel take packets from the interface whose source is an address of its own: ICMP
/// errors to hosts behind it. Where that can't be set they are lost, and nothing else is.
fn take_own(name: &str) {
    let path = format!("/proc/sys/net/ipv4/conf/{name}/accept_local");
    let _ = std::fs::write(path, "1");
}

/// Keeps the kernel from talking on its own: each router solicitation or listener report would
/// cross the narrow link.
fn quieten(name: &str) -> Result<(), Error> {
    let settings = [
        ("accept_dad", "0"),
        ("accept_ra", "0"),
        ("router_solicitations", "0"),
        ("addr_gen_mode", "1"),
    ];
    for (key, value) in settings {
        let path = format!("/proc/sys/net/ipv6/conf/{name}/{key}");
        match std::fs::write(&path, value) {
            // A kernel without IPv6 has nothing to say in it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result.doing(|| format!("set {path}"))?,
        }
    }
    Ok(())
}

impl PortIo for TunPort {
    fn open(&mut self, _now: Instant) -> Result<PortState, Error> {
        if self.file.is_none() {
            let file = self.attach()?;
            self.set_up()?;
            self.file = Some(file);
        }
        Ok(PortState {
            tx_rate: HOST_RATE,
            rx_rate: HOST_RATE,
            frame_octets_max: self.frame_octets_max(),
            block: Duration::ZERO,
            latency: Duration::ZERO,
            notice: Notice::NONE,
        })
    }

    fn close(&mut self) {
        self.file = None;
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        let listens = self.rests().is_none();
        let file = self.file.as_ref().filter(|_| listens);
        file.map(AsFd::as_fd)
    }

    fn wake(&self) -> Option<Instant> {
        self.rests()
    }

    fn tick(&mut self, _now: Instant) -> io::Result<()> {
        if let Some(ethernet) = &mut self.ethernet {
            ethernet.ration.frames = 0;
        }
        Ok(())
    }

    fn room(&mut self, now: Instant) -> Result<Room, Option<Instant>> {
        Ok(Room {
            octets: self.frame_octets_max() as usize,
            starts: now,
            until: None,
            to: Neighbours::ALL,
        })
    }

    fn transmit(&mut self, _now: Instant, _meta: &TxMeta, octets: &[u8]) -> io::Result<Sent> {
        let Some(file) = &mut self.file else {
            self.counts.refused += 1;
            return Ok(Sent::Refused);
        };
        match file.write(octets) {
            Ok(_) => Ok(Sent::Taken),
            // The interface is gone, or an operator took it down.
            Err(error) if is_gone(&error) => Err(error),
            Err(_) => {
                self.counts.refused += 1;
                Ok(Sent::Refused)
            }
        }
    }

    fn holds(&self) -> bool {
        false
    }

    fn flush(&mut self, _now: Instant) -> io::Result<()> {
        Ok(())
    }

    fn drained(&mut self, _now: Instant) -> bool {
        true
    }

    fn receive(&mut self, now: Instant, buffer: &mut [u8]) -> io::Result<Received> {
        let packets = self.ethernet.is_none();
        let mut ethernet = self.ethernet.iter_mut();
        if ethernet.any(|it| !it.ration.allows(now)) {
            return Ok(Received::Nothing);
        }
        let Some(file) = &mut self.file else {
            return Ok(Received::Nothing);
        };
        let read = file.read(buffer);
        if let (Ok(_), Some(ethernet)) = (&read, &mut self.ethernet) {
            ethernet.ration.frames += 1;
        }
        match read {
            Ok(0) => Err(Errno::ENODEV.into()),
            Ok(octets) if packets && is_chatter(&buffer[..octets]) => {
                self.counts.chatter += 1;
                Ok(Received::Skipped)
            }
            Ok(octets) => Ok(Received::Frame {
                from: NeighbourId::PEER,
                octets,
            }),
            Err(error) if is_not_now(&error) => Ok(Received::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Of a TAP the kernel is one station among others.
    fn interface(&self) -> Option<&str> {
        let routed = self.ethernet.is_none() && self.file.is_some();
        routed.then_some(self.config.interface.as_str())
    }

    fn counts(&self) -> IoCounts {
        self.counts
    }
}

/// Whether a packet is the kernel's own care for the interface and ends on this link: IGMP
/// (RFC 3376), multicast listener messages (RFC 2710, RFC 3810) and neighbour discovery
/// (RFC 4861). No setting silences all of it: a kernel that forwards reports that it listens to
/// all routers, on interfaces without multicast too.
fn is_chatter(packet: &[u8]) -> bool {
    const IGMP: u8 = 2;
    const ICMPV6: u8 = 58;
    const HOP_BY_HOP: u8 = 0;
    match packet.first().map(|octet| octet >> 4) {
        Some(4) => packet.get(9) == Some(&IGMP),
        Some(6) => {
            let (mut next, mut start) = (packet.get(6).copied(), 40);
            if next == Some(HOP_BY_HOP) {
                next = packet.get(40).copied();
                start += 8 + 8 * packet.get(41).map_or(0, |length| usize::from(*length));
            }
            let kind = packet.get(start).filter(|_| next == Some(ICMPV6));
            kind.is_some_and(|kind| matches!(kind, 130..=137 | 143))
        }
        _ => false,
    }
}

fn is_gone(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw);
    matches!(
        number,
        Some(Errno::EIO | Errno::EBADFD | Errno::ENODEV | Errno::EBADF)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_is_heard_at_32_000_frames_a_second() {
        let hear = |ration: &mut Ration, now: Instant| {
            let heard = u32::from(ration.allows(now));
            ration.frames += heard;
            heard
        };
        let mut ration = Ration::default();
        let mut heard = 0;
        for us in 0..1_000_000 {
            let now = Instant::from_nanos(us * 1000);
            heard += hear(&mut ration, now);
            assert!(ration.rests().is_none_or(|until| now < until));
        }
        assert_eq!(heard, 32_000);
        // What comes in less than that is heard at once.
        let mut ration = Ration::default();
        let mut quiet = (0..25_000).map(|frame| Instant::from_nanos(frame * 40_000));
        assert!(quiet.all(|now| hear(&mut ration, now) == 1));
    }

    #[test]
    fn the_kernels_own_packets_are_told_from_those_of_applications() {
        // A listener report (type 143) for ff02::2, behind a router alert option.
        let mut report = [0; 76];
        report[0] = 0x60;
        report[40] = 58;
        report[48] = 143;
        assert!(is_chatter(&report));
        report[48] = 128;
        assert!(!is_chatter(&report));
        let mut solicitation = [0; 48];
        solicitation[0] = 0x60;
        solicitation[6] = 58;
        solicitation[40] = 133;
        assert!(is_chatter(&solicitation));
        solicitation[6] = 17;
        assert!(!is_chatter(&solicitation));
        let mut igmp = [0; 24];
        igmp[0] = 0x45;
        igmp[9] = 2;
        assert!(is_chatter(&igmp));
        igmp[9] = 1;
        assert!(!is_chatter(&igmp));
        for length in 0..report.len() {
            is_chatter(&report[..length]);
        }
        assert!(!is_chatter(&[]));
    }
}
