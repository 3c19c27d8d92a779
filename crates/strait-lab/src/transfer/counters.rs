//! What the kernel's TCP counted.

use std::fs;
use std::io;

use strait_live::error::{Doing, Error};
use strait_live::kernel::namespace::Namespace;
use strait_measure::tcp_socket::Tcp;

/// What the kernel counted for one connection, which is the only one in its namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounters {
    /// SYNs sent.
    pub syns: u64,
    /// Times that the retransmission timer ran out, while the connection opened too; `None` if the
    /// kernel doesn't tell (before 6.7).
    pub timeouts: Option<u64>,
    /// Recoveries taken back as needless, those after a timeout too: `TCPLossUndo`, `TCPFullUndo`,
    /// `TCPPartialUndo` and `TCPDSACKUndo`.
    pub undone: u64,
    /// Segments sent again (`RetransSegs`).
    pub retransmissions: u64,
}

const UNDONE: [&str; 4] = [
    "TCPLossUndo",
    "TCPFullUndo",
    "TCPPartialUndo",
    "TCPDSACKUndo",
];

impl KernelCounters {
    /// Of the only connection in `namespace`, which `socket` opened.
    pub(super) fn read(namespace: &Namespace, socket: &Tcp) -> Result<Self, Error> {
        let read = |name| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        let texts = namespace.enter(|| Ok::<_, io::Error>([read("snmp")?, read("netstat")?]))?;
        let [snmp, netstat] = texts.doing(|| "read what TCP has counted")?;
        let info = socket.info().doing(|| "ask for TCP_INFO")?;
        let of = |text, table, name| counter(text, table, name).unwrap_or(0);
        Ok(Self {
            syns: of(&snmp, "Tcp", "ActiveOpens") + of(&netstat, "TcpExt", "TCPSynRetrans"),
            timeouts: info.total_rto().map(u64::from),
            undone: UNDONE.map(|name| of(&netstat, "TcpExt", name)).iter().sum(),
            retransmissions: of(&snmp, "Tcp", "RetransSegs"),
        })
    }
}

/// A counter of a table in `/proc/net`: a line of names, and then a line of values.
fn counter(text: &str, table: &str, name: &str) -> Option<u64> {
    let row = |line: &str| {
        let (head, rest) = line.split_once(':')?;
        (head == table).then(|| rest.split_whitespace().map(String::from).collect())
    };
    let mut rows = text.lines().filter_map(row);
    let (names, values): (Vec<String>, Vec<String>) = (rows.next()?, rows.next()?);
    let column = names.iter().position(|it| it == name)?;
    values.get(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let text = "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: ActiveOpens RetransSegs\nTcp: 3 17\n";
        assert_eq!(counter(text, "Tcp", "RetransSegs"), Some(17));
        assert_eq!(counter(text, "Ip", "DefaultTTL"), Some(64));
        assert_eq!(counter(text, "Tcp", "InSegs"), None);
        assert_eq!(counter(text, "TcpExt", "TCPLossUndo"), None);
        assert_eq!(counter("Tcp: A B\nTcp: 1\n", "Tcp", "B"), None);
        assert_eq!(counter("Tcp: A\n", "Tcp", "A"), None);
    }
}
