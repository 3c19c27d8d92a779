//! S_PRIMITIVEs as octets on a socket (Annex A.2.2, Annex F.16).

use alloc::vec::Vec;

use crate::address::Address;

/// The beginning of each primitive: sync and version.
pub const PREAMBLE: [u8; 3] = [0x90, 0xeb, 0x00];

/// Octets ahead of a primitive's type: preamble and size.
pub const FRONT: usize = PREAMBLE.len() + 2;

/// How data is carried, 12 bits: of a client's binding, or of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// 0 as bound, 1 ARQ, 2 without, 3 without and with errors; others without.
    pub mode: u8,
    /// 0 none, 1 by the node, 2 by the client.
    pub confirmation: u8,
    /// As they arrive, not in order.
    pub any_order: bool,
    /// More follows; never sent, and nothing is known to follow.
    pub extended: bool,
    /// Times that data without ARQ is sent again at the least.
    pub repeats: u8,
}

/// The mode of a request that leaves it to the binding.
pub const MODE_AS_BOUND: u8 = 0;
/// With repeats until it has come.
pub const MODE_ARQ: u8 = 1;
/// Without.
pub const MODE_NON_ARQ: u8 = 2;
/// Without; damaged data is requested, too.
pub const MODE_WITH_ERRORS: u8 = 3;

impl Service {
    /// The 12 bits.
    #[must_use]
    pub const fn bits(self) -> u16 {
        ((self.mode & 15) as u16) << 8
            | ((self.confirmation & 3) as u16) << 6
            | (self.any_order as u16) << 5
            | (self.extended as u16) << 4
            | (self.repeats & 15) as u16
    }

    /// The meaning of 12 bits.
    #[must_use]
    pub const fn of(bits: u16) -> Self {
        Self {
            mode: (bits >> 8) as u8 & 15,
            confirmation: (bits >> 6) as u8 & 3,
            any_order: bits >> 5 & 1 != 0,
            extended: bits >> 4 & 1 != 0,
            repeats: bits as u8 & 15,
        }
    }
}

/// A node as a primitive names it (A.2.2.28.1): its octets, as answers to clients repeat them.
/// There are at most seven half octets; the standard's figure and its text disagree about the
/// position of fewer. All 28 bits are read, whatever their stated number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeAddress(u32);

impl NodeAddress {
    /// The node, or the group.
    #[must_use]
    pub const fn address(self) -> Address {
        Address::new(self.0)
    }
}

/// By all seven half octets.
impl From<Address> for NodeAddress {
    fn from(address: Address) -> Self {
        Self(7 << 29 | address.bits())
    }
}

/// The purpose of a hard link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardLink {
    /// 0 a reservation, 1 part of the link, 2 all of it for one client.
    pub kind: u8,
    /// 0 to 3.
    pub priority: u8,
    /// The other client of a link of kind 2.
    pub sap: u8,
}

impl HardLink {
    pub(crate) const fn octet(self) -> u8 {
        (self.kind & 3) << 6 | (self.priority & 3) << 4 | self.sap & 15
    }

    pub(crate) const fn of(octet: u8) -> Self {
        Self {
            kind: octet >> 6,
            priority: octet >> 4 & 3,
            sap: octet & 15,
        }
    }
}

/// Data that a client wants sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// 0 to 15, 15 the most urgent; 0 if expedited.
    pub priority: u8,
    /// The receiver's access point.
    pub sap: u8,
    /// Its node.
    pub to: NodeAddress,
    /// How it is to be carried.
    pub service: Service,
    /// For so many times 2 s it is worth sending; 0 for ever.
    pub ttl: u32,
    /// The data.
    pub u_pdu: &'a [u8],
}

/// Data that arrived for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indication<'a> {
    /// 0 to 15; 0 if expedited.
    pub priority: u8,
    /// The client's own access point.
    pub sap: u8,
    /// This node, or one of its groups.
    pub to: Address,
    /// The mode of transmission; [`MODE_WITH_ERRORS`] comes with the two lists.
    pub mode: u8,
    /// The sender's access point.
    pub from_sap: u8,
    /// Its node.
    pub from: Address,
    /// Offset and length of damaged parts.
    pub damaged: &'a [(u16, u16)],
    /// Offset and length of missing parts.
    pub missing: &'a [(u16, u16)],
    /// The data.
    pub u_pdu: &'a [u8],
}

/// The outcome of a client's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told<'a> {
    /// The access point that it was for.
    pub sap: u8,
    /// The node.
    pub to: NodeAddress,
    /// The data, or how it begins.
    pub u_pdu: &'a [u8],
}

/// A primitive. Numbers in its names are those of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Primitive<'a> {
    /// 1: a client wants an access point.
    BindRequest {
        /// Which.
        sap: u8,
        /// 0 to 15, 15 for management.
        rank: u8,
        /// How its data is carried if requests don't say.
        service: Service,
    },
    /// 2: a client gives its access point up.
    UnbindRequest,
    /// 3: it has it.
    BindAccepted {
        /// Which.
        sap: u8,
        /// The longest U_PDU in octets.
        mtu: u16,
    },
    /// 4: it hasn't, for a reason.
    BindRejected(u8),
    /// 5: it has lost it, for a reason.
    UnbindIndication(u8),
    /// 6: a client wants a hard link.
    HardLinkEstablish(HardLink, NodeAddress),
    /// 7: it doesn't need it any more.
    HardLinkTerminate(NodeAddress),
    /// 8: it has it; the other node's status goes ahead.
    HardLinkEstablished(u8, HardLink, NodeAddress),
    /// 9: it hasn't, for a reason.
    HardLinkRejected(u8, HardLink, NodeAddress),
    /// 10: it has lost it, for a reason.
    HardLinkTerminated(u8, HardLink, NodeAddress),
    /// 11: another node's client wants one with this client.
    HardLinkIndication(u8, HardLink, NodeAddress),
    /// 12: the client agrees.
    HardLinkAccept(HardLink, NodeAddress),
    /// 13: it doesn't, for a reason.
    HardLinkReject(u8, HardLink, NodeAddress),
    /// 14: the node's present availability, and its reason.
    SubnetAvailability {
        /// 0 nothing, 1 on, 2 receive, 3 half duplex, 4 full duplex, 5 transmit.
        status: u8,
        /// Why.
        reason: u8,
    },
    /// 15: the client may go on.
    DataFlowOn,
    /// 16: it is to stop.
    DataFlowOff,
    /// 17: are you there? Yes.
    KeepAlive,
    /// 18: a wish of the management.
    ManagementRequest {
        /// The kind.
        kind: u8,
        /// Free.
        body: &'a [u8],
    },
    /// 19: the answer.
    ManagementIndication {
        /// The kind.
        kind: u8,
        /// Free.
        body: &'a [u8],
    },
    /// 20, or 24 expedited.
    UnidataRequest(bool, Request<'a>),
    /// 21, or 25 expedited.
    UnidataIndication(bool, Indication<'a>),
    /// 22, or 26 expedited: it has arrived.
    UnidataConfirm(bool, Told<'a>),
    /// 23, or 27 expedited: it hasn't, for a reason.
    UnidataRejected(bool, u8, Told<'a>),
}

impl<'a> Primitive<'a> {
    /// The number of its type.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::BindRequest { .. } => 1,
            Self::UnbindRequest => 2,
            Self::BindAccepted { .. } => 3,
            Self::BindRejected(_) => 4,
            Self::UnbindIndication(_) => 5,
            Self::HardLinkEstablish(..) => 6,
            Self::HardLinkTerminate(_) => 7,
            Self::HardLinkEstablished(..) => 8,
            Self::HardLinkRejected(..) => 9,
            Self::HardLinkTerminated(..) => 10,
            Self::HardLinkIndication(..) => 11,
            Self::HardLinkAccept(..) => 12,
            Self::HardLinkReject(..) => 13,
            Self::SubnetAvailability { .. } => 14,
            Self::DataFlowOn => 15,
            Self::DataFlowOff => 16,
            Self::KeepAlive => 17,
            Self::ManagementRequest { .. } => 18,
            Self::ManagementIndication { .. } => 19,
            Self::UnidataRequest(expedited, _) => 20 + 4 * *expedited as u8,
            Self::UnidataIndication(expedited, _) => 21 + 4 * *expedited as u8,
            Self::UnidataConfirm(expedited, _) => 22 + 4 * *expedited as u8,
            Self::UnidataRejected(expedited, ..) => 23 + 4 * *expedited as u8,
        }
    }

    /// Appends it with preamble and size. A primitive longer than its size can tell is cut.
    pub fn put(&self, out: &mut Vec<u8>) {
        let begins = out.len();
        out.extend_from_slice(&PREAMBLE);
        out.extend_from_slice(&[0, 0, self.kind()]);
        self.put_body(out);
        out.truncate(begins + FRONT + usize::from(u16::MAX));
        let size = (out.len() - begins - FRONT) as u16;
        out[begins + PREAMBLE.len()..begins + FRONT].copy_from_slice(&size.to_be_bytes());
    }

    fn put_body(&self, out: &mut Vec<u8>) {
        match *self {
            Self::BindRequest { sap, rank, service } => {
                out.push(sap << 4 | rank & 15);
                out.extend_from_slice(&(service.bits() << 4).to_be_bytes());
            }
            Self::BindAccepted { sap, mtu } => {
                out.push(sap << 4);
                out.extend_from_slice(&mtu.to_be_bytes());
            }
            Self::BindRejected(reason) | Self::UnbindIndication(reason) => out.push(reason),
            Self::HardLinkEstablish(link, to) | Self::HardLinkAccept(link, to) => {
                out.push(link.octet());
                put_address(to, out);
            }
            Self::HardLinkTerminate(to) => put_address(to, out),
            Self::HardLinkEstablished(first, link, to)
            | Self::HardLinkRejected(first, link, to)
            | Self::HardLinkTerminated(first, link, to)
            | Self::HardLinkIndication(first, link, to)
            | Self::HardLinkReject(first, link, to) => {
                out.extend_from_slice(&[first, link.octet()]);
                put_address(to, out);
            }
            Self::SubnetAvailability { status, reason } => out.extend_from_slice(&[status, reason]),
            Self::ManagementRequest { kind, body } | Self::ManagementIndication { kind, body } => {
                out.push(kind);
                out.extend_from_slice(body);
            }
            Self::UnidataRequest(expedited, request) => request.put(expedited, out),
            Self::UnidataIndication(expedited, indication) => indication.put(expedited, out),
            Self::UnidataConfirm(_, told) => told.put(0, out),
            Self::UnidataRejected(_, reason, told) => told.put(reason, out),
            Self::UnbindRequest | Self::DataFlowOn | Self::DataFlowOff | Self::KeepAlive => {}
        }
    }

    /// Reads a primitive's type and body, without preamble and size. `None` for unknown types and
    /// bodies of a wrong size.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&kind, body) = bytes.split_first()?;
        let mut take = Take(body);
        let expedited = kind >= 24;
        let primitive = match kind {
            1 => {
                let octet = take.octet()?;
                Self::BindRequest {
                    sap: octet >> 4,
                    rank: octet & 15,
                    service: Service::of(take.word()? >> 4),
                }
            }
            2 => Self::UnbindRequest,
            3 => Self::BindAccepted {
                sap: take.octet()? >> 4,
                mtu: take.word()?,
            },
            4 => Self::BindRejected(take.octet()?),
            5 => Self::UnbindIndication(take.octet()?),
            6 => Self::HardLinkEstablish(take.link()?, take.address()?),
            7 => Self::HardLinkTerminate(take.address()?),
            8 => Self::HardLinkEstablished(take.octet()?, take.link()?, take.address()?),
            9 => Self::HardLinkRejected(take.octet()?, take.link()?, take.address()?),
            10 => Self::HardLinkTerminated(take.octet()?, take.link()?, take.address()?),
            11 => Self::HardLinkIndication(take.octet()?, take.link()?, take.address()?),
            12 => Self::HardLinkAccept(take.link()?, take.address()?),
            13 => Self::HardLinkReject(take.octet()?, take.link()?, take.address()?),
            14 => Self::SubnetAvailability {
                status: take.octet()?,
                reason: take.octet()?,
            },
            15 => Self::DataFlowOn,
            16 => Self::DataFlowOff,
            17 => Self::KeepAlive,
            18 => Self::ManagementRequest {
                kind: take.octet()?,
                body: take.rest(),
            },
            19 => Self::ManagementIndication {
                kind: take.octet()?,
                body: take.rest(),
            },
            20 | 24 => Self::UnidataRequest(expedited, take.request()?),
            // The lists of an indication aren't kept: no code here reads them from octets.
            21 | 25 => Self::UnidataIndication(expedited, take.indication()?),
            22 | 26 => Self::UnidataConfirm(expedited, take.told()?.1),
            23 | 27 => {
                let (reason, told) = take.told()?;
                Self::UnidataRejected(expedited, reason, told)
            }
            _ => return None,
        };
        take.0.is_empty().then_some(primitive)
    }
}

fn put_address(address: NodeAddress, out: &mut Vec<u8>) {
    out.extend_from_slice(&address.0.to_be_bytes());
}

impl Request<'_> {
    fn put(&self, expedited: bool, out: &mut Vec<u8>) {
        let priority = if expedited { 0 } else { self.priority };
        out.push(priority << 4 | self.sap & 15);
        put_address(self.to, out);
        let mode = u32::from(self.service.bits()) << 20 | self.ttl & 0xf_ffff;
        out.extend_from_slice(&mode.to_be_bytes());
        put_sized(self.u_pdu, out);
    }
}

impl Indication<'_> {
    fn put(&self, expedited: bool, out: &mut Vec<u8>) {
        let priority = if expedited { 0 } else { self.priority };
        out.push(priority << 4 | self.sap & 15);
        put_address(self.to.into(), out);
        out.push(self.mode << 4 | self.from_sap & 15);
        put_address(self.from.into(), out);
        out.extend_from_slice(&(self.u_pdu.len() as u16).to_be_bytes());
        if self.mode == MODE_WITH_ERRORS {
            for list in [self.damaged, self.missing] {
                out.extend_from_slice(&(list.len() as u16).to_be_bytes());
                for (offset, length) in list {
                    out.extend_from_slice(&offset.to_be_bytes());
                    out.extend_from_slice(&length.to_be_bytes());
                }
            }
        }
        out.extend_from_slice(self.u_pdu);
    }
}

impl Told<'_> {
    fn put(&self, reason: u8, out: &mut Vec<u8>) {
        out.push(reason << 4 | self.sap & 15);
        put_address(self.to, out);
        put_sized(self.u_pdu, out);
    }
}

fn put_sized(u_pdu: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(u_pdu.len() as u16).to_be_bytes());
    out.extend_from_slice(u_pdu);
}

/// Takes a body apart.
struct Take<'a>(&'a [u8]);

impl<'a> Take<'a> {
    fn octets(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    fn number(&mut self, octets: usize) -> Option<u32> {
        let taken = self.octets(octets)?.iter();
        Some(taken.fold(0, |all, octet| all << 8 | u32::from(*octet)))
    }

    fn octet(&mut self) -> Option<u8> {
        self.number(1).map(|octet| octet as u8)
    }

    fn word(&mut self) -> Option<u16> {
        self.number(2).map(|word| word as u16)
    }

    fn link(&mut self) -> Option<HardLink> {
        self.octet().map(HardLink::of)
    }

    fn address(&mut self) -> Option<NodeAddress> {
        self.number(4).map(NodeAddress)
    }

    /// A U_PDU behind its size. Four octets between them, two empty lists, are passed over: there
    /// are clients that send them always.
    fn sized(&mut self) -> Option<&'a [u8]> {
        let size = usize::from(self.word()?);
        if self.0.len() == size + 4 {
            self.octets(4)?;
        }
        self.octets(size)
    }

    fn request(&mut self) -> Option<Request<'a>> {
        let first = self.octet()?;
        let to = self.address()?;
        let mode = self.number(4)?;
        Some(Request {
            priority: first >> 4,
            sap: first & 15,
            to,
            service: Service::of((mode >> 20) as u16),
            ttl: mode & 0xf_ffff,
            u_pdu: self.sized()?,
        })
    }

    fn indication(&mut self) -> Option<Indication<'a>> {
        let first = self.octet()?;
        let to = self.address()?;
        let second = self.octet()?;
        let from = self.address()?;
        let mode = second >> 4;
        let u_pdu = if mode == MODE_WITH_ERRORS {
            let size = usize::from(self.word()?);
            for _ in 0..2 {
                let blocks = usize::from(self.word()?);
                self.octets(blocks * 4)?;
            }
            self.octets(size)?
        } else {
            self.sized()?
        };
        Some(Indication {
            priority: first >> 4,
            sap: first & 15,
            to: to.address(),
            mode,
            from_sap: second & 15,
            from: from.address(),
            damaged: &[],
            missing: &[],
            u_pdu,
        })
    }

    fn told(&mut self) -> Option<(u8, Told<'a>)> {
        let first = self.octet()?;
        let to = self.address()?;
        // Only how it begins may stand there.
        let size = usize::from(self.word()?);
        let u_pdu = self.rest();
        (u_pdu.len() <= size).then_some(())?;
        let told = Told {
            sap: first & 15,
            to,
            u_pdu,
        };
        Some((first >> 4, told))
    }
}

/// Octets that are no primitive: their sender isn't understood any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no primitive begins here")]
pub struct NoPrimitive;

/// Primitives out of a stream of octets. Keeps at most the octets of one primitive.
#[derive(Debug, Default)]
pub struct Reader {
    kept: Vec<u8>,
}

impl Reader {
    /// Takes the next octets; `tell` gets each primitive's type and body and returns whether to
    /// continue.
    ///
    /// # Errors
    /// [`NoPrimitive`] if something else stands there; nothing more is to be read then.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut tell: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), NoPrimitive> {
        self.kept.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            let rest = &self.kept[at..];
            let begins = rest.len().min(PREAMBLE.len());
            if rest[..begins] != PREAMBLE[..begins] {
                return Err(NoPrimitive);
            }
            let Some(size) = rest.get(PREAMBLE.len()..FRONT) else {
                break;
            };
            let size = usize::from(u16::from_be_bytes([size[0], size[1]]));
            let Some(body) = rest.get(FRONT..FRONT + size) else {
                break;
            };
            at += FRONT + size;
            if !tell(body) {
                break;
            }
        }
        self.kept.drain(..at);
        Ok(())
    }
}
