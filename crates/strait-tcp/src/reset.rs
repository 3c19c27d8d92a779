//! The answer to a segment that belongs to no connection.

use std::net::IpAddr;

use ::smoltcp::phy::ChecksumCapabilities;
use ::smoltcp::wire::{
    IpAddress, IpProtocol, IpRepr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
};
use strait_wire::ip::{PacketInfo, TcpFlags, tcp_header, verify_transport_checksum};

/// Writes into `out` the reset that answers `packet`, or nothing and false if none is due: for a
/// reset (RFC 9293 section 3.10.7.1), for a damaged segment, and for what isn't TCP.
pub fn reset_for(packet: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    let (Ok(info), Some(view)) = (PacketInfo::parse(packet), tcp_header(packet)) else {
        return false;
    };
    let Some((from_port, to_port)) = info.ports else {
        return false;
    };
    let addressed = |address: IpAddr| !address.is_unspecified() && !address.is_multicast();
    if view.flags.contains(TcpFlags::RST)
        || verify_transport_checksum(packet) != Some(true)
        || !addressed(info.src)
        || !addressed(info.dst)
    {
        return false;
    }
    let (seq, ack) = if view.flags.contains(TcpFlags::ACK) {
        (view.ack, None)
    } else {
        let controls = [TcpFlags::SYN, TcpFlags::FIN].map(|flag| view.flags.contains(flag));
        let length = view.payload.len() as u32 + controls.map(u32::from).iter().sum::<u32>();
        (0, Some(view.seq.wrapping_add(length)))
    };
    let tcp = TcpRepr {
        src_port: to_port,
        dst_port: from_port,
        control: TcpControl::Rst,
        seq_number: TcpSeqNumber(seq as i32),
        ack_number: ack.map(|ack| TcpSeqNumber(ack as i32)),
        window_len: 0,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    };
    let (src, dst) = (IpAddress::from(info.dst), IpAddress::from(info.src));
    let ip = IpRepr::new(src, dst, IpProtocol::Tcp, tcp.buffer_len(), 64);
    let checks = ChecksumCapabilities::default();
    out.resize(ip.buffer_len(), 0);
    ip.emit(&mut out[..], &checks);
    let mut segment = TcpPacket::new_unchecked(&mut out[ip.header_len()..]);
    tcp.emit(&mut segment, &src, &dst, &checks);
    true
}
