//! The kinds of link that are forged on.

use strait_core::Duration;
use strait_core::rate::LineRate;
use strait_wire::segment::SegmentCheck;

use crate::dice::Dice;
use crate::world::{Medium, World};
use crate::{hops, segments};

/// What the frames of a link are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Segments { marks: bool },
    Hops(SegmentCheck),
    Paper,
}

/// What a link's medium is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Serial,
    Udp,
    Kiss,
}

/// A kind of link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) name: &'static str,
    keys: &'static str,
    kind: Kind,
    pub(crate) format: Format,
    /// The second end is only heard, never hears.
    pub(crate) one_way: bool,
    /// Hosts are on an Ethernet, not behind a TUN interface.
    pub(crate) tap: bool,
}

const SEGMENTS: Format = Format::Segments { marks: false };
const MARKED: Format = Format::Segments { marks: true };
const LONG: Format = Format::Hops(SegmentCheck::Long);
const SHORT: Format = Format::Hops(SegmentCheck::Short);

const ROHC: &str = "compression = \"rohc\"";
const DEFLATED: &str = "compression = \"rohc\"\npayload = \"deflate\"";
const PLAIN: &str = "profile = \"plain\"";
const HBH: &str = "profile = \"hbh\"";
const HBH_PARITY: &str =
    "profile = \"hbh\"\nhbh = { reliability = [{ class = \"voice\", parity = 3 }] }";
const PAPER: &str = "profile = \"hbh\"\nhbh = { format = \"paper\" }";
const ADAPTER: &str = "profile = \"adapter\"";
const REMEMBERING: &str =
    "compression = \"rohc\"\nremember_flows = true\n[state]\nfile = \"state\"";
const REBUILDING: &str = "compression = \"rohc\"\nchecksums = \"rebuild\"\ncheck = 16";
const ADAPTING: &str = "profile = \"adapter\"\ncompression = \"rohc\"\npayload = \"deflate\"";
const MENDING: &str = "compression = \"rohc\"\nrepair = \"always\"";
const MENDING_ADAPTER: &str = "profile = \"adapter\"\ncompression = \"rohc\"\nrepair = \"always\"";
const COUNTING: &str = "compression = \"rohc\"\ncount_packets = true\npayload = \"deflate\"";
const KNOWN: &str = "compression = \"rohc\"\n[[port.context]]\nsrc = \"10.1.0.2\"\ndst = \"10.2.0.2\"\nsrc_port = 5004\ndst_port = 5004\n[[port.context]]\nsrc = \"10.2.0.2\"\ndst = \"10.1.0.2\"\nsrc_port = 5004\ndst_port = 5004";

const ANSWERS: &str = "profile = \"plain\"\n[answers]\npreset = \"network-adapter\"";

use Kind::{Kiss, Serial, Udp};

/// A link whose gateways answer from stored replies.
pub(crate) const ANSWERING: Link = link("answering frames", Udp, SEGMENTS, ANSWERS);

pub(crate) const LINKS: &[Link] = &[
    link("plain line", Serial, SEGMENTS, PLAIN),
    link("plain frames", Udp, SEGMENTS, PLAIN),
    link("bare line", Serial, SEGMENTS, ""),
    link("bare frames", Udp, SEGMENTS, ""),
    link("segments line", Serial, SEGMENTS, REMEMBERING),
    link("segments frames", Udp, SEGMENTS, DEFLATED),
    link("counting frames", Udp, SEGMENTS, COUNTING),
    link("known flows", Serial, SEGMENTS, KNOWN),
    link("rebuilding frames", Udp, SEGMENTS, REBUILDING),
    link("bare adapter", Serial, MARKED, ADAPTER),
    link("adapter line", Serial, MARKED, ADAPTING),
    link("mending line", Serial, SEGMENTS, MENDING),
    link("mending adapter", Serial, MARKED, MENDING_ADAPTER),
    link("adapter frames", Udp, SEGMENTS, ADAPTING),
    link("hbh", Udp, LONG, HBH_PARITY),
    link("hbh, 16 bits", Udp, SHORT, "profile = \"hbh\"\ncheck = 16"),
    link("hbh as published", Udp, Format::Paper, PAPER),
    link("kiss", Kiss, SEGMENTS, ROHC),
    link("bare kiss", Kiss, SEGMENTS, ""),
    link(
        "plain kiss",
        Kiss,
        SEGMENTS,
        "profile = \"plain\"\nframe = \"1004 B\"",
    ),
    link(
        "kiss, hbh",
        Kiss,
        LONG,
        "profile = \"hbh\"\nframe = \"1600 B\"",
    ),
    link("one-way plain frames", Udp, SEGMENTS, PLAIN).one_way(),
    link("one-way frames", Udp, SEGMENTS, DEFLATED).one_way(),
    link("one-way line", Serial, SEGMENTS, ROHC).one_way(),
    link("one-way adapter", Serial, MARKED, ADAPTING).one_way(),
    link("one-way kiss", Kiss, SEGMENTS, ROHC).one_way(),
    link("ethernets, plain", Udp, SEGMENTS, PLAIN).between_ethernets(),
    link("ethernets, line", Serial, SEGMENTS, DEFLATED).between_ethernets(),
    link("ethernets, frames", Udp, SEGMENTS, DEFLATED).between_ethernets(),
    link("ethernets, adapter", Serial, MARKED, ADAPTING).between_ethernets(),
    link("ethernets, hbh", Udp, LONG, HBH).between_ethernets(),
    link("ethernets, published", Udp, Format::Paper, PAPER).between_ethernets(),
];

const fn link(name: &'static str, kind: Kind, format: Format, keys: &'static str) -> Link {
    Link {
        name,
        keys,
        kind,
        format,
        one_way: false,
        tap: false,
    }
}

impl Link {
    const fn one_way(mut self) -> Self {
        self.one_way = true;
        self
    }

    const fn between_ethernets(mut self) -> Self {
        self.tap = true;
        self
    }

    pub(crate) fn named(name: &str) -> Self {
        let found = LINKS.iter().find(|link| link.name == name);
        *found.unwrap()
    }

    /// The medium as it is where nothing is lost.
    pub(crate) fn medium(self) -> Medium {
        let (bit_s, bits) = match self.kind {
            Serial => (9600, 10),
            Kiss => (9600, 8),
            Udp => (64_000, 8),
        };
        Medium {
            octets: self.kind == Serial,
            frame_octets_max: if self.kind == Kiss { 1600 } else { 2000 },
            rate: LineRate::new(bit_s, bits),
            latency: Duration::from_millis(30),
            lost: 0,
            jitter: Duration::ZERO,
            reorders: false,
            one_way: self.one_way,
        }
    }

    /// The medium of a case: a third of them lose, another third delay.
    pub(crate) fn rough_medium(self, dice: &mut Dice) -> Medium {
        let mut medium = self.medium();
        match dice.below(3) {
            0 => medium.lost = [5, 20, 50][dice.below(3)],
            1 => {
                medium.jitter = Duration::from_millis([5, 60, 400][dice.below(3)]);
                medium.latency = Duration::from_millis([1, 30, 300][dice.below(3)]);
                medium.reorders = self.kind == Udp && dice.one_in(2);
            }
            _ => {}
        }
        medium
    }

    /// The node file of an end.
    pub(crate) fn text(self, end: usize) -> String {
        let kind = match self.kind {
            Serial => "kind = \"serial\"\nbaud = 9600",
            Udp => "kind = \"udp\"",
            Kiss => "kind = \"kiss\"\nrate = \"9600 bit/s\"",
        };
        let (own, other) = (end + 1, 2 - end);
        let (host, routes) = if self.tap {
            (
                format!(
                    "kind = \"tap\"\nmac = \"02:00:00:00:01:0{own}\"\naddresses = [\"10.{own}.0.1/8\", \"fd00:{own}::1/64\"]\nadvertise = [\"fd00:{own}::/64\"]"
                ),
                format!(
                    "[[route]]\nprefix = \"10.{other}.0.0/16\"\nport = \"link\"\n[[route]]\nprefix = \"fd00:{other}::/64\"\nport = \"link\"\n"
                ),
            )
        } else {
            let addresses = "addresses = [\"10.9.0.1/30\", \"fd00:9::1/64\"]";
            (addresses.into(), String::new())
        };
        let back = if self.one_way {
            "way_back = false\n"
        } else {
            ""
        };
        format!(
            "name = \"end\"\n[host]\n{host}\n[[port]]\nname = \"link\"\n{kind}\n{back}{}\n{routes}",
            self.keys
        )
    }

    /// Packets that may come twice: as published, those of each flow's window when both ends begin
    /// anew; else what a forger says again.
    pub(crate) const fn doubled_max(self) -> usize {
        match self.format {
            Format::Paper => 4 * 8,
            _ => 1,
        }
    }

    /// A frame in the name of the end `from`.
    pub(crate) fn forge(self, dice: &mut Dice, world: &World, from: usize) -> Vec<u8> {
        let octets = self.kind == Serial;
        match self.format {
            Format::Segments { marks } => segments::forge(dice, &world.seen, from, octets, marks),
            Format::Hops(check) => hops::forge(dice, &world.seen, from, check),
            Format::Paper => hops::forge_paper(dice, &world.seen, from),
        }
    }
}
