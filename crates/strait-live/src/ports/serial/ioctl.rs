//! `ioctl`s of terminals (Linux `asm-generic/ioctls.h`).
#![allow(unsafe_code, reason = "ioctl has no safe wrapper")]

use std::fs::File;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::libc;

nix::ioctl_read_bad!(tcgets2, libc::TCGETS2, libc::termios2);
nix::ioctl_write_ptr_bad!(tcsets2, libc::TCSETS2, libc::termios2);
nix::ioctl_read_bad!(tiocoutq, libc::TIOCOUTQ, libc::c_int);
nix::ioctl_none_bad!(tiocexcl, libc::TIOCEXCL);
nix::ioctl_write_int_bad!(tcflsh, libc::TCFLSH);
nix::ioctl_read_bad!(tiocgserial, libc::TIOCGSERIAL, SerialStruct);
nix::ioctl_write_ptr_bad!(tiocsserial, libc::TIOCSSERIAL, SerialStruct);

/// `struct serial_struct` of `linux/serial.h`.
#[repr(C)]
#[derive(Default)]
pub(super) struct SerialStruct {
    kind: libc::c_int,
    line: libc::c_int,
    port: libc::c_uint,
    irq: libc::c_int,
    flags: libc::c_int,
    xmit_fifo_size: libc::c_int,
    custom_divisor: libc::c_int,
    baud_base: libc::c_int,
    close_delay: libc::c_ushort,
    io_type: libc::c_char,
    reserved_char: [libc::c_char; 1],
    hub6: libc::c_int,
    closing_wait: libc::c_ushort,
    closing_wait2: libc::c_ushort,
    iomem_base: usize,
    iomem_reg_shift: libc::c_ushort,
    port_high: libc::c_uint,
    iomap_base: libc::c_ulong,
}

const ASYNC_LOW_LATENCY: libc::c_int = 1 << 13;
/// Don't wait for output when closing.
const CLOSING_WAIT_NONE: libc::c_ushort = 65_535;

pub(super) fn modes(file: &File) -> Result<libc::termios2, Errno> {
    // SAFETY: `termios2` is plain data for which all octets zero is a valid value.
    let mut modes: libc::termios2 = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and `modes` is what the call fills in.
    unsafe { tcgets2(file.as_raw_fd(), &raw mut modes) }?;
    Ok(modes)
}

pub(super) fn set_modes(file: &File, modes: &libc::termios2) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and `modes` is a `termios2` as the call expects.
    unsafe { tcsets2(file.as_raw_fd(), modes) }.map(drop)
}

/// Octets written that haven't left the device's buffer.
pub(super) fn backlog(file: &File) -> Result<u64, Errno> {
    let mut octets: libc::c_int = 0;
    // SAFETY: the descriptor is open, and `octets` is an `int` that the call fills in.
    unsafe { tiocoutq(file.as_raw_fd(), &raw mut octets) }?;
    Ok(u64::try_from(octets).unwrap_or(0))
}

/// Refuses further opens, but for root's.
pub(super) fn make_exclusive(file: &File) -> Result<(), Errno> {
    // SAFETY: the descriptor is open; the call has no argument.
    unsafe { tiocexcl(file.as_raw_fd()) }.map(drop)
}

/// Discards what was received and not read, and what was written and hasn't left.
pub(super) fn discard(file: &File) -> Result<(), Errno> {
    // SAFETY: the descriptor is open; the argument is a number, not a pointer.
    unsafe { tcflsh(file.as_raw_fd(), libc::TCIOFLUSH) }.map(drop)
}

/// Asks the driver to hand octets over at once.
pub(super) fn set_low_latency(file: &File) -> Result<(), Errno> {
    let mut settings = SerialStruct::default();
    // SAFETY: the descriptor is open, and `settings` has the layout that the call fills in.
    unsafe { tiocgserial(file.as_raw_fd(), &raw mut settings) }?;
    settings.flags |= ASYNC_LOW_LATENCY;
    settings.closing_wait = CLOSING_WAIT_NONE;
    // SAFETY: as above; the call reads what it filled in before.
    unsafe { tiocsserial(file.as_raw_fd(), &raw const settings) }.map(drop)
}
