//! The kernel's own account of a TCP connection: `TCP_INFO` of tcp(7).

use std::os::fd::{AsRawFd, RawFd};

use nix::errno::Errno;
use nix::libc;
use socket2::Socket;
use strait_core::time::Duration;

/// As much of `struct tcp_info` (Linux `uapi/linux/tcp.h`) as this kernel has. The structure only
/// ever grows at its end, so a field is where it always was or isn't there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpInfo(Vec<u8>);

impl TcpInfo {
    /// Of a connection, or of what may become one.
    ///
    /// # Errors
    /// The kernel doesn't tell.
    pub fn read(socket: &Socket) -> Result<Self, Errno> {
        tcp_info(socket.as_raw_fd()).map(Self)
    }

    /// The smoothed round-trip time; zero before the first measurement.
    pub fn rtt(&self) -> Option<Duration> {
        let rtt_us = self.u32_at(68)?;
        Some(Duration::from_micros(rtt_us.into()))
    }

    /// Segments sent again, SYNs too.
    pub fn total_retrans(&self) -> Option<u32> {
        self.u32_at(100)
    }

    /// Segments sent, those without data too (since Linux 4.2).
    pub fn segs_out(&self) -> Option<u32> {
        self.u32_at(136)
    }

    /// Times that the retransmission timer ran out (since Linux 6.7).
    pub fn total_rto(&self) -> Option<u16> {
        let field = self.0.get(240..)?.first_chunk()?;
        Some(u16::from_ne_bytes(*field))
    }

    fn u32_at(&self, at: usize) -> Option<u32> {
        let field = self.0.get(at..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*field))
    }
}

#[allow(unsafe_code, reason = "getsockopt has no safe wrapper for this option")]
fn tcp_info(socket: RawFd) -> Result<Vec<u8>, Errno> {
    let mut info = vec![0u8; 512];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the pointers are to a buffer of `length` octets and to `length`, which outlive the
    // call; the kernel writes at most so many octets of plain data.
    let result = unsafe {
        libc::getsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    Errno::result(result)?;
    info.truncate(length as usize);
    Ok(info)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use socket2::{Domain, Protocol, Type};

    use super::*;

    #[test]
    fn the_kernel_tells_of_a_socket() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        let info = TcpInfo::read(&socket).unwrap();
        // TCP_CLOSE, and all the fields of the last ten years.
        assert_eq!((info.0[0], info.0.len() >= 200), (7, true));
        assert_eq!(info.segs_out(), Some(0));
        assert_eq!(tcp_info(-1), Err(Errno::EBADF));
        assert_eq!(TcpInfo(vec![0; 68]).rtt(), None);
    }

    #[test]
    fn the_fields_are_where_they_are_looked_for() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        near.write_all(b"x").unwrap();
        far.read_exact(&mut [0]).unwrap();
        far.write_all(b"y").unwrap();
        near.read_exact(&mut [0]).unwrap();
        let info = TcpInfo::read(&Socket::from(near)).unwrap();
        // SYN, its acknowledgement, the octet; perhaps one more acknowledgement.
        assert!((3..=5).contains(&info.segs_out().unwrap()), "{info:?}");
        assert_eq!(info.total_retrans(), Some(0));
        let rtt = info.rtt().unwrap();
        assert!(
            rtt > Duration::ZERO && rtt < Duration::from_secs(1),
            "{rtt:?}"
        );
    }
}
