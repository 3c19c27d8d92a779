//! Serial lines: real devices and pseudo-terminals.

mod ioctl;

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::libc;
use nix::sys::stat::major;
use strait_core::framing::{Framing, Parity};
use strait_core::id::NeighbourId;
use strait_core::id::Neighbours;
use strait_core::node::{Notice, PortState, Room, TxMeta};
use strait_core::rate::{Burst, LineRate};
use strait_core::time::{Duration, Instant};

use crate::error::{Doing, Error};
use crate::ports::{IoCounts, PortIo, Received, Sent, is_not_now};

/// What a serial port is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerialConfig {
    /// The device file, or the slave of a pseudo-terminal.
    pub device: PathBuf,
    /// Signalling rate in bit/s; any number, the device's clock permitting.
    pub baud: u32,
    /// Form of a character, or a clock: a synchronous device has its own speed.
    pub framing: Framing,
    /// Whether RTS/CTS stop the flow.
    pub hardware_flow_control: bool,
}

impl SerialConfig {
    /// The speed of the line.
    pub fn rate(&self) -> LineRate {
        LineRate::new(u64::from(self.baud), self.framing.bits_per_octet())
    }
}

/// A serial line as a port.
///
/// At most the low-water mark of octets is outstanding: handed to the device, not yet out by the
/// line's rate; only what nothing goes before any more is handed over at once. A pseudo-terminal
/// takes octets at any speed and never reports a backlog, so time alone paces it; a real device is
/// asked for its backlog too, since its clock isn't ours.
#[derive(Debug)]
pub struct SerialPort {
    config: SerialConfig,
    line: Option<Line>,
    counts: IoCounts,
}

#[derive(Debug)]
struct Line {
    file: File,
    is_pty: bool,
    pace: Burst,
    /// Pulled, but the device had no space: at most the low-water mark.
    pending: Vec<u8>,
}

/// Time that octets outstanding at the low-water mark take.
const LOW_WATER: Duration = Duration::from_millis(4);

/// Octets that may be outstanding: two, or 4 ms of line. One is on the line and one is ready to
/// follow it; more only bridge the event loop's lateness.
fn low_water_octets(rate: LineRate) -> u64 {
    rate.octets_in(LOW_WATER).max(2)
}

/// How fast octets are handed over. What a pseudo-terminal's other side took late waits there and
/// nobody tells; only a pace that is a little slower than the line ever gives it time to catch up.
/// Two octets of it take half a second at 9600 baud.
fn pace_rate(line: LineRate, is_pty: bool) -> LineRate {
    const SLOWER: u64 = 256;
    let bit_s = line.bit_s() - line.bit_s() / SLOWER * u64::from(is_pty);
    LineRate::new(bit_s, line.bits_per_octet())
}

/// Octets that haven't left by `now`, a begun one counted whole.
fn outstanding_octets(pace: &Burst, now: Instant) -> u64 {
    let left = pace.end().since(now);
    if left.is_zero() {
        return 0;
    }
    pace.rate().octets_in(left - Duration::from_nanos(1)) + 1
}

/// The octets and the moment that a line offers, from what its pace and its device say.
fn line_room(pace: &Burst, backlog_octets: u64, now: Instant) -> Result<Room, Option<Instant>> {
    let rate = pace.rate();
    let mark = low_water_octets(rate);
    let by_pace = outstanding_octets(pace, now);
    let outstanding = by_pace.max(backlog_octets);
    if outstanding < mark {
        let starts = now + rate.time_for(backlog_octets);
        return Ok(Room {
            octets: (mark - outstanding) as usize,
            starts: starts.max(pace.end()),
            until: None,
            to: Neighbours::ALL,
        });
    }
    // Asking for each octet would wake the loop as often as a fast line has octets; half the mark
    // is soon enough to keep the line busy. Rounded up: what comes later than the octets last
    // leaves a gap on the line, and of three octets the next is asked for when one has left.
    let half = mark.div_ceil(2);
    let excess = rate.time_for(outstanding - half);
    let again = if by_pace == outstanding {
        pace.end() - rate.time_for(half)
    } else {
        now + excess
    };
    Err(Some(again.max(now + rate.time_for(1))))
}

impl SerialPort {
    /// A port that isn't open yet.
    pub const fn new(config: SerialConfig) -> Self {
        Self {
            config,
            line: None,
            counts: IoCounts {
                strangers: 0,
                chatter: 0,
                refused: 0,
                backlog_octets_max: 0,
            },
        }
    }

    fn state(&self) -> PortState {
        PortState {
            tx_rate: self.config.rate(),
            rx_rate: self.config.rate(),
            frame_octets_max: u32::MAX,
            block: Duration::ZERO,
            latency: Duration::ZERO,
            notice: Notice::NONE,
        }
    }
}

impl Line {
    fn open(config: &SerialConfig, now: Instant) -> Result<Self, Error> {
        let path = &config.device;
        let file = open_device(path)?;
        let doing = || format!("set up serial device `{}`", path.display());
        let is_pty = is_pty(&file).doing(doing)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::new(
                    format!("open serial device `{}`", path.display()),
                    Errno::EBUSY,
                ));
            }
            Err(TryLockError::Error(error)) => return Err(Error::new(doing(), error)),
        }
        let mut modes = ioctl::modes(&file).doing(doing)?;
        make_raw(&mut modes, config);
        ioctl::set_modes(&file, &modes).doing(doing)?;
        if !is_pty {
            ioctl::make_exclusive(&file).doing(doing)?;
            check_speed(&file, config)?;
            // Not every driver has the setting; without it octets arrive later, no worse.
            if let Err(error) = ioctl::set_low_latency(&file) {
                tracing::debug!(device = %path.display(), %error, "no low-latency mode");
            }
            ioctl::discard(&file).doing(doing)?;
        }
        Ok(Self {
            file,
            is_pty,
            pace: Burst::new(pace_rate(config.rate(), is_pty), now),
            pending: Vec::new(),
        })
    }

    fn backlog_octets(&self) -> u64 {
        if self.is_pty {
            return 0;
        }
        // A device that fails here fails the next read or write too, which takes the port down.
        ioctl::backlog(&self.file).unwrap_or(0)
    }

    /// Writes what the device takes of the octets.
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < octets.len() {
            match self.file.write(&octets[written..]) {
                Ok(0) => return Err(Errno::EIO.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_not_now(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }
}

/// Opens without waiting for a carrier and without becoming the controlling terminal's slave.
fn open_device(path: &Path) -> Result<File, Error> {
    let doing = || format!("open serial device `{}`", path.display());
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)
        .doing(doing)?;
    let kind = file.metadata().doing(doing)?.file_type();
    if !kind.is_char_device() {
        return Err(Error::invalid(doing(), "it is no terminal device"));
    }
    Ok(file)
}

/// Whether the file is a pseudo-terminal's slave: Linux gives them the device numbers 136 to 143.
fn is_pty(file: &File) -> io::Result<bool> {
    Ok((136..=143).contains(&major(file.metadata()?.rdev())))
}

/// No treatment of octets, the line's speed and framing, no modem control.
fn make_raw(modes: &mut libc::termios2, config: &SerialConfig) {
    modes.c_iflag = libc::IGNBRK;
    modes.c_oflag = 0;
    modes.c_lflag = 0;
    modes.c_cflag = libc::CS8 | libc::CREAD | libc::CLOCAL | libc::BOTHER;
    if let Framing::Async(character) = config.framing {
        modes.c_cflag |= match character.parity {
            Parity::None => 0,
            Parity::Even => libc::PARENB,
            Parity::Odd => libc::PARENB | libc::PARODD,
            Parity::Mark => libc::PARENB | libc::PARODD | libc::CMSPAR,
            Parity::Space => libc::PARENB | libc::CMSPAR,
        };
        if character.stop == 2 {
            modes.c_cflag |= libc::CSTOPB;
        }
    }
    if config.hardware_flow_control {
        modes.c_cflag |= libc::CRTSCTS;
    }
    modes.c_ispeed = config.baud;
    modes.c_ospeed = config.baud;
    // A read that finds nothing says so, and zero octets mean a hang-up.
    modes.c_cc[libc::VMIN] = 1;
    modes.c_cc[libc::VTIME] = 0;
}

/// A device whose clock can't make the speed sets the nearest one it can; past 3 % no character
/// survives.
fn check_speed(file: &File, config: &SerialConfig) -> Result<(), Error> {
    // A synchronous line's clock isn't this device's to set.
    if config.framing == Framing::Sync {
        return Ok(());
    }
    let doing = || format!("set {} baud on `{}`", config.baud, config.device.display());
    let speed = u64::from(ioctl::modes(file).doing(doing)?.c_ospeed);
    if speed.abs_diff(u64::from(config.baud)) * 100 > u64::from(config.baud) * 3 {
        let why = format!("the device can only do {speed} baud");
        return Err(Error::invalid(doing(), why));
    }
    Ok(())
}

impl PortIo for SerialPort {
    fn open(&mut self, now: Instant) -> Result<PortState, Error> {
        if self.line.is_none() {
            self.line = Some(Line::open(&self.config, now)?);
        }
        Ok(self.state())
    }

    fn close(&mut self) {
        self.line = None;
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.line.as_ref().map(|line| line.file.as_fd())
    }

    fn room(&mut self, now: Instant) -> Result<Room, Option<Instant>> {
        let Some(line) = &self.line else {
            return Err(None);
        };
        if !line.pending.is_empty() {
            return Err(None);
        }
        let backlog_octets = line.backlog_octets();
        self.counts.backlog_octets_max = self.counts.backlog_octets_max.max(backlog_octets);
        line_room(&line.pace, backlog_octets, now)
    }

    fn room_for(&mut self, now: Instant, committed: usize) -> Result<Room, Option<Instant>> {
        let room = self.room(now);
        let (true, Some(line)) = (committed > 0, &self.line) else {
            return room;
        };
        if !line.pending.is_empty() {
            return room;
        }
        let ahead = line.pace.rate().time_for(line.backlog_octets());
        Ok(room.map_or_else(
            |_| Room {
                octets: committed,
                starts: line.pace.end().max(now + ahead),
                until: None,
                to: Neighbours::ALL,
            },
            |room| Room {
                octets: room.octets.max(committed),
                ..room
            },
        ))
    }

    fn transmit(&mut self, now: Instant, _meta: &TxMeta, octets: &[u8]) -> io::Result<Sent> {
        let Some(line) = &mut self.line else {
            self.counts.refused += 1;
            return Ok(Sent::Refused);
        };
        let written = line.write(octets)?;
        line.pending.extend_from_slice(&octets[written..]);
        line.pace.push(now, octets.len() as u64);
        Ok(Sent::Taken)
    }

    fn holds(&self) -> bool {
        let line = self.line.as_ref();
        line.is_some_and(|line| !line.pending.is_empty())
    }

    fn flush(&mut self, _now: Instant) -> io::Result<()> {
        let Some(line) = &mut self.line else {
            return Ok(());
        };
        let pending = std::mem::take(&mut line.pending);
        let written = line.write(&pending)?;
        line.pending = pending;
        line.pending.drain(..written);
        Ok(())
    }

    fn drained(&mut self, now: Instant) -> bool {
        self.line.as_ref().is_none_or(|line| {
            line.pending.is_empty() && line.pace.end() <= now && line.backlog_octets() == 0
        })
    }

    fn receive(&mut self, _now: Instant, buffer: &mut [u8]) -> io::Result<Received> {
        let Some(line) = &mut self.line else {
            return Ok(Received::Nothing);
        };
        match line.file.read(buffer) {
            // The other side of a pseudo-terminal, or the device itself, is gone.
            Ok(0) => Err(Errno::EIO.into()),
            Ok(octets) => Ok(Received::Frame {
                from: NeighbourId::PEER,
                octets,
            }),
            Err(error) if is_not_now(&error) => Ok(Received::Nothing),
            Err(error) => Err(error),
        }
    }

    fn counts(&self) -> IoCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn the_low_water_mark_is_two_octets_or_four_milliseconds() {
        assert_eq!(low_water_octets(LineRate::new(75, 10)), 2);
        assert_eq!(low_water_octets(LineRate::new(9600, 10)), 3);
        assert_eq!(low_water_octets(LineRate::new(115_200, 10)), 46);
    }

    #[test]
    fn only_a_pseudo_terminal_is_given_time_to_catch_up() {
        let line = LineRate::new(9600, 10);
        assert_eq!(pace_rate(line, false), line);
        assert_eq!(pace_rate(line, true), LineRate::new(9563, 10));
        assert_eq!(
            pace_rate(LineRate::new(75, 10), true),
            LineRate::new(75, 10)
        );
    }

    #[test]
    fn room_returns_octet_by_octet_and_the_loop_is_woken_at_half_the_mark() {
        // 1000 octets/s: a mark of 4 octets, each 1 ms.
        let mut pace = Burst::new(LineRate::new(8000, 8), at(0));
        let room = line_room(&pace, 0, at(5)).unwrap();
        assert_eq!((room.octets, room.starts), (4, at(5)));
        pace.push(at(5), 4);
        assert_eq!(line_room(&pace, 0, at(5)), Err(Some(at(2_000_005))));
        assert!(line_room(&pace, 0, at(1_000_004)).is_err());
        let room = line_room(&pace, 0, at(1_000_005)).unwrap();
        assert_eq!((room.octets, room.starts), (1, at(4_000_005)));
        let room = line_room(&pace, 0, at(2_000_005)).unwrap();
        assert_eq!((room.octets, room.starts), (2, at(4_000_005)));
    }

    #[test]
    fn a_device_that_holds_more_than_the_pace_says_is_believed() {
        let pace = Burst::new(LineRate::new(8000, 8), at(0));
        assert_eq!(line_room(&pace, 6, at(100)), Err(Some(at(4_000_100))));
        let room = line_room(&pace, 3, at(100)).unwrap();
        assert_eq!((room.octets, room.starts), (1, at(3_000_100)));
    }

    #[test]
    fn what_is_fixed_is_taken_at_once_and_nothing_behind_it() {
        let pair = crate::ports::pty::PtyPair::open(None).unwrap();
        let mut port = SerialPort::new(SerialConfig {
            device: pair.slave_path().to_path_buf(),
            baud: 9600,
            framing: Framing::ASYNC_8N1,
            hardware_flow_control: false,
        });
        port.open(at(0)).unwrap();
        let meta = TxMeta::to_peer(strait_core::id::ClassId(0));
        assert_eq!(port.room_for(at(0), 0).unwrap().octets, 3);
        port.transmit(at(0), &meta, &[1; 3]).unwrap();
        assert!(port.room_for(at(0), 0).is_err());
        let room = port.room_for(at(0), 35).unwrap();
        assert_eq!(room.octets, 35);
        let three = pace_rate(LineRate::new(9600, 10), true).time_for(3);
        assert_eq!(room.starts, at(0) + three);
        port.transmit(at(0), &meta, &[2; 35]).unwrap();
        assert!(port.room_for(at(0), 0).is_err());
        let (mut octets, mut read) = ([0; 100], 0);
        // The kernel hands each write over by itself, and not at once.
        for _ in 0..1000 {
            match pair.read(&mut octets[read..]) {
                Ok(more) => read += more,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            if read >= 38 {
                break;
            }
        }
        assert_eq!(read, 38);
    }

    #[test]
    fn a_missing_device_and_a_plain_file_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = SerialConfig {
            device: dir.path().join("ttyNone"),
            baud: 9600,
            framing: Framing::ASYNC_8N1,
            hardware_flow_control: false,
        };
        let error = SerialPort::new(config.clone()).open(at(0)).unwrap_err();
        assert!(error.to_string().contains("plugged in"), "{error}");
        config.device = dir.path().join("file");
        std::fs::write(&config.device, "").unwrap();
        let error = SerialPort::new(config).open(at(0)).unwrap_err();
        assert!(error.to_string().contains("no terminal device"), "{error}");
    }

    #[test]
    fn a_line_in_use_says_so() {
        let pair = crate::ports::pty::PtyPair::open(None).unwrap();
        let config = SerialConfig {
            device: pair.slave_path().to_path_buf(),
            baud: 12_345,
            framing: Framing::ASYNC_8N1,
            hardware_flow_control: false,
        };
        let mut first = SerialPort::new(config.clone());
        first.open(at(0)).unwrap();
        let error = SerialPort::new(config.clone()).open(at(0)).unwrap_err();
        assert!(error.to_string().contains("another program"), "{error}");
        first.close();
        assert!(SerialPort::new(config).open(at(0)).is_ok());
    }
}
