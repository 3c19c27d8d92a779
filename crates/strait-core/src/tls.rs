//! TLS on a node's streams ([`StreamOp::StartTls`](crate::node::StreamOp::StartTls)): who it is to
//! the other side, how old it may be, and what is wrong with those that fail.

use alloc::string::String;

use crate::time::Duration;

/// The longest record's content (RFC 8446 section 5.1), in octets: what waits beyond the node's own
/// limits is never more than one.
pub const RECORD_OCTETS_MAX: usize = 16 * 1024;

/// Octets that the other side may send before both are secured: several long certificates.
pub const HANDSHAKE_OCTETS_MAX: usize = 64 * 1024;

/// How long both sides may take to be secured, where a profile doesn't say.
pub const HANDSHAKE: Duration = Duration::from_secs(60);

/// Who a node is to the other side of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsRole {
    /// It was called: it shows its certificate.
    Server,
    /// It calls, and wants the other side's certificate to be for this name: that of a host, or an
    /// IP address as text.
    Client {
        /// The name.
        name: String,
    },
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// RFC 5246.
    V1_2,
    /// RFC 8446.
    V1_3,
}

impl TlsVersion {
    /// The number in files, logs and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1_2 => "1.2",
            Self::V1_3 => "1.3",
        }
    }
}

/// Why a stream isn't secured, or not any longer. A driver tells it as the error number of a
/// [`StreamEvent::Reset`](crate::node::StreamEvent::Reset); streams have these for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum TlsFault {
    /// There is no such profile, or it lacks what the role needs.
    Profile,
    /// What came where TLS should begin is none of it: octets in the clear.
    Clear,
    /// The other side doesn't keep to the protocol, or can't what the profile wants.
    Protocol,
    /// Its certificate's time is over, or hasn't begun.
    Expired,
    /// Nobody whom the profile trusts has issued its certificate.
    Issuer,
    /// Its certificate is for another name.
    Name,
    /// It has shown no certificate, and the profile requires one.
    Missing,
    /// Its certificate is no good for another reason: a wrong signature, another purpose.
    Unfit,
    /// It refuses us, and says so by an alert.
    Refused,
    /// It ended without saying that it has said all (RFC 8446 section 6.1): something may be
    /// missing.
    Truncated,
    /// It took too long.
    Slow,
    /// It sent too much before it was secured.
    Long,
}

impl TlsFault {
    /// All faults, in the order of the arrays indexed by them.
    pub const ALL: [Self; 12] = [
        Self::Profile,
        Self::Clear,
        Self::Protocol,
        Self::Expired,
        Self::Issuer,
        Self::Name,
        Self::Missing,
        Self::Unfit,
        Self::Refused,
        Self::Truncated,
        Self::Slow,
        Self::Long,
    ];

    /// Its error number, as Linux has numbers for what comes close.
    pub const fn number(self) -> i32 {
        match self {
            Self::Profile => 2,     // ENOENT
            Self::Clear => 74,      // EBADMSG
            Self::Protocol => 71,   // EPROTO
            Self::Expired => 127,   // EKEYEXPIRED
            Self::Issuer => 126,    // ENOKEY
            Self::Name => 129,      // EKEYREJECTED
            Self::Missing => 61,    // ENODATA
            Self::Unfit => 128,     // EKEYREVOKED
            Self::Refused => 52,    // EBADE
            Self::Truncated => 121, // EREMOTEIO
            Self::Slow => 62,       // ETIME
            Self::Long => 90,       // EMSGSIZE
        }
    }

    /// The fault that an error number of a stream means, if one.
    pub fn of(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.number() == number)
    }

    /// The word in logs, status and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Profile => "no-profile",
            Self::Clear => "clear-text",
            Self::Protocol => "protocol",
            Self::Expired => "certificate-expired",
            Self::Issuer => "issuer-unknown",
            Self::Name => "name-mismatch",
            Self::Missing => "certificate-missing",
            Self::Unfit => "certificate-unfit",
            Self::Refused => "refused-by-peer",
            Self::Truncated => "truncated",
            Self::Slow => "too-slow",
            Self::Long => "too-long",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_place_number_and_name() {
        for (index, fault) in TlsFault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, index);
            assert_eq!(TlsFault::of(fault.number()), Some(fault));
            let same = TlsFault::ALL
                .into_iter()
                .filter(|it| it.name() == fault.name());
            assert_eq!(same.count(), 1);
        }
        // What streams end with for other reasons is none of them.
        for number in [5, 28, 32, 99, 101, 103, 104, 105, 107, 110, 111, 113] {
            assert_eq!(TlsFault::of(number), None);
        }
    }
}
