//! `[port.kiss]` of a node file: a KISS modem and its radio.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};
use strait_core::time::Duration;
use strait_qos::Policy;
use strait_wire::ax25::{REPEATERS_MAX, Station, UI_OCTETS};

use super::{
    Checksums, Compression, InvalidConfig, LinkProfile, NodeConfig, PayloadCompression, PortConfig,
    PortKind, invalid,
};

/// A KISS modem and its radio.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct KissConfig {
    /// Where its TCP server is; without one, it is at the port's `device`. Live only.
    pub modem: Option<SocketAddr>,
    /// Which of its radios, 0 to 15.
    pub radio: u8,
    /// Whether it is asked to tell of each frame when it has been sent (ACKMODE), or of nothing.
    /// Without, a modem over TCP is asked for its queue.
    pub notice: Option<bool>,
    /// Our station, for AX.25 frames; they go without header if absent.
    pub own: Option<String>,
    /// The other end's station, if there is one: several are the port's `neighbours`, each with
    /// its `call`.
    pub peer: Option<String>,
    /// Repeaters that send our frames on, in their order.
    pub via: Vec<String>,
}

impl KissConfig {
    /// The repeaters, if all are names of stations and not too many.
    pub fn repeaters(&self) -> Option<Vec<Station>> {
        let via: Option<Vec<Station>> = self.via.iter().map(|name| name.parse().ok()).collect();
        via.filter(|via| via.len() <= REPEATERS_MAX)
    }
}

/// The longest contents of a frame, each octet of which may take so many: Dire Wolf keeps what
/// comes from a program in 2048 octets, with escapes and all that stands around the contents.
const fn frame_octets_max(repeaters: usize, each: usize) -> u64 {
    const BUFFER: usize = 2048;
    const FENDS: usize = 2;
    const COMMAND_AND_NUMBER: usize = 1 + 2;
    let header = UI_OCTETS + repeaters * Station::OCTETS;
    ((BUFFER - FENDS) / each - header - COMMAND_AND_NUMBER) as u64
}

/// What AX.25 stations agree on without negotiation, and other IP over AX.25 has by default.
const FRAME_OCTETS: u64 = 256;
/// RFC 791: every link carries packets of 68 octets.
const IP_OCTETS_MIN: u64 = 68;
/// A frame that takes longer on the air is worth a word where calls wait for it.
const LONG_FRAME: Duration = Duration::from_millis(1500);

impl NodeConfig {
    /// Ports whose frames take so long that calls suffer, if the policy puts a class before others.
    pub fn long_frames(&self) -> Vec<String> {
        let ranks = |policy: Policy| -> Vec<u8> {
            let classes = policy.classes().iter();
            classes.map(|class| class.rank).collect()
        };
        let ranks = Policy::compile(&self.policy).map_or_else(|_| Vec::new(), ranks);
        if !ranks.contains(&0) || ranks.iter().all(|rank| *rank == 0) {
            return Vec::new();
        }
        let is_kiss = |port: &&PortConfig| matches!(port.kind, PortKind::Kiss(_));
        let ports = self.ports.iter().filter(is_kiss);
        let times = ports.filter_map(|port| Some((port, port.kiss_time()?)));
        let long = times.filter(|(_, time)| *time > LONG_FRAME);
        let warning = |(port, time): (&PortConfig, Duration)| {
            let or_segment = match port.profile.cuts_packets() {
                true => ", or `segment`",
                false => "",
            };
            format!(
                "{}: a frame takes {:.1} s on the air, and an urgent packet may wait for two in \
                 the modem: reduce it{or_segment}",
                port.place("frame"),
                time.as_secs_f64()
            )
        };
        long.map(warning).collect()
    }
}

impl PortConfig {
    /// The longest contents of a frame over a KISS modem. Left to itself, a frame takes a second
    /// or so: an urgent packet waits for one or two of them.
    pub(super) fn kiss_frame(&self) -> usize {
        let second = self.rate.map_or(FRAME_OCTETS, |rate| rate.0 / 8);
        let usual = match second {
            // What both ends remember has to fit into one.
            _ if self.profile == LinkProfile::Ip || self.remember_flows => FRAME_OCTETS,
            256.. => FRAME_OCTETS,
            128.. => 128,
            _ => 64,
        };
        self.frame.map_or(usual, |frame| frame.0) as usize
    }

    /// The longest packet that the port carries, as far as its file says.
    pub(crate) fn mtu_octets(&self) -> usize {
        let mtu = self.mtu.0 as usize;
        match self.profile {
            LinkProfile::Ip => mtu.min(self.kiss_frame()),
            _ => mtu,
        }
    }

    /// A KISS radio's stations, ours and then the others in the order of the port's neighbours, if
    /// all are named, names of such, and different ones.
    pub fn kiss_stations(&self) -> Option<(Station, Vec<Station>)> {
        let kiss = self.kiss()?;
        let station = |name: &Option<String>| name.as_ref()?.parse::<Station>().ok();
        let own = station(&kiss.own)?;
        let calls = self.neighbours.iter().map(|it| station(&it.call));
        let others: Vec<Station> = match (&kiss.peer, self.neighbours.is_empty()) {
            (Some(_), true) => vec![station(&kiss.peer)?],
            (None, false) => calls.collect::<Option<_>>()?,
            _ => return None,
        };
        let all: BTreeSet<&Station> = others.iter().chain([&own]).collect();
        (all.len() == others.len() + 1).then_some((own, others))
    }

    /// Whether IPv6 crosses the port: AX.25 has no protocol number for it.
    pub(crate) fn carries_v6(&self) -> bool {
        self.profile != LinkProfile::Ip
    }

    /// How long the longest frame is on the air.
    fn kiss_time(&self) -> Option<Duration> {
        let rate = self.line_rate()?;
        let kiss = self.kiss().filter(|kiss| kiss.own.is_some());
        let header = kiss.map_or(0, |kiss| UI_OCTETS + kiss.via.len() * Station::OCTETS);
        let frame = match self.profile.cuts_packets() {
            true => {
                let segment = self.link_settings(Some(rate)).segment_octets_max;
                segment.min(self.kiss_frame())
            }
            false => self.frame_octets_max(),
        };
        Some(rate.time_for((frame + header) as u64))
    }

    /// Octets that leave without interruption, as far as they may take longer than a class's age:
    /// where no packet is cut, one that is leaving and one that the layer below has; of a KISS
    /// modem the two frames that it may have in hand.
    pub(crate) fn uncut_octets(&self) -> usize {
        let packet = match self.profile.cuts_packets() {
            true => 0,
            false => self.mtu_octets(),
        };
        let frame = self.kiss().map_or(0, |_| self.frame_octets_max());
        2 * packet.max(frame)
    }

    pub(super) fn validate_kiss(&self, kiss: &KissConfig) -> Result<(), InvalidConfig> {
        if self.rate.is_none_or(|rate| rate.0 == 0) {
            let message = "needed: the rate on the air, such as \"1200 bit/s\"";
            return Err(invalid(self.place("rate"), message));
        }
        let named = kiss.own.is_some() || kiss.peer.is_some() || !self.neighbours.is_empty();
        if self.profile == LinkProfile::Ip {
            self.validate_ip(named)?;
        }
        self.validate_framing()?;
        let has_device = matches!(&self.kind, PortKind::Kiss(port) if port.line.device.is_some());
        if kiss.modem.is_some() && has_device {
            let message = "a modem is at a TCP address or at a `device`: remove one of them";
            return Err(invalid(self.place("kiss.modem"), message));
        }
        if kiss.radio > 15 {
            return Err(invalid(self.place("kiss.radio"), "must be 0 to 15"));
        }
        if named && self.kiss_stations().is_none() {
            let message = "both are needed, each a call sign of 1 to 6 letters and digits, \
                           perhaps with -0 to -15: `N0CALL-7`; of several other stations, each is \
                           one of the port's `neighbours` with its own `call`, in place of `peer`";
            return Err(invalid(self.place("kiss.own, kiss.peer"), message));
        }
        self.validate_neighbours()?;
        if kiss.repeaters().is_none() || !kiss.via.is_empty() && !named {
            let message = "must be call signs such as `N0CALL-7`, eight at most, beside `kiss.own` \
                           and `kiss.peer`";
            return Err(invalid(self.place("kiss.via"), message));
        }
        let frame = self.frame_octets_max() as u64;
        // Where packets aren't cut, a frame has to hold IPv6's 1280 octets. One with so many
        // escapes that it doesn't fit isn't sent.
        let (each, why) = match self.profile {
            LinkProfile::Hbh | LinkProfile::Plain => (1, ""),
            _ => (2, " whose octets all need escapes"),
        };
        let most = frame_octets_max(kiss.via.len(), each);
        if !(16..=most).contains(&frame) {
            let message = format!(
                "must be 16 to {most} octets, so that Dire Wolf's buffer takes a frame{why}; \
                 AX.25's own limit is 256"
            );
            return Err(invalid(self.place("frame"), message));
        }
        Ok(())
    }

    /// Other stacks know the packet alone.
    fn validate_ip(&self, named: bool) -> Result<(), InvalidConfig> {
        if !named {
            let message = "needed with profile = \"ip\": the packets go in AX.25 frames";
            return Err(invalid(self.place("kiss.own, kiss.peer"), message));
        }
        if (self.kiss_frame() as u64) < IP_OCTETS_MIN {
            let message = "must be at least 68 octets with profile = \"ip\": packets are cut by \
                           IPv4's own rules";
            return Err(invalid(self.place("frame"), message));
        }
        let foreign = [
            ("compression", self.compression != Compression::None),
            ("payload", self.payload != PayloadCompression::None),
            ("segment", self.segment.is_some()),
            ("check", self.check.is_some()),
            ("check_urgent", self.check_urgent.is_some()),
            ("checksums", self.checksums != Checksums::default()),
            ("context", !self.context.is_empty()),
            ("keeps_order", self.keeps_order),
            ("count_packets", self.count_packets),
            ("doubt", self.doubt.is_some()),
            ("remember_flows", self.remember_flows),
            ("way_back", !self.way_back),
        ];
        let message = "is for strait at both ends: remove it, or profile = \"ip\"";
        match foreign.into_iter().find(|(_, given)| *given) {
            Some((key, _)) => Err(invalid(self.place(key), message)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use crate::config::NodeConfig;
    use crate::config_text;

    fn node(rate: &str, keys: &str) -> Result<NodeConfig, String> {
        let text = format!(
            "name = \"a\"\nhost = {{}}\n[[port]]\nname = \"radio\"\nkind = \"kiss\"\n\
             rate = \"{rate}\"\n{keys}\n"
        );
        let config: NodeConfig =
            config_text::parse("a.toml", &text).map_err(|it| it.to_string())?;
        config.validate().map_err(|it| it.to_string())?;
        Ok(config)
    }

    #[test]
    fn a_frame_takes_a_second_or_so_and_holds_one_segment() {
        for (rate, keys, octets) in [
            ("300 bit/s", "", 64),
            ("1200 bit/s", "", 128),
            ("2047 bit/s", "", 128),
            ("2048 bit/s", "", 256),
            ("9600 bit/s", "", 256),
            ("1200 bit/s", "frame = \"256 B\"", 256),
            ("9600 bit/s", "frame = \"1004 B\"", 1004),
            (
                "1200 bit/s",
                "compression = \"rohc\"\nremember_flows = true\n[state]\nfile = \"a.state\"",
                256,
            ),
        ] {
            let port = &node(rate, keys).unwrap().ports[0];
            let segment = port.link_settings(port.line_rate()).segment_octets_max;
            assert_eq!(
                (port.frame_octets_max(), segment),
                (octets, octets),
                "{rate} {keys}"
            );
        }
        let port = &node("9600 bit/s", "segment = \"100 B\"").unwrap().ports[0];
        assert_eq!(port.link_settings(None).segment_octets_max, 100);
    }

    #[test]
    fn frames_that_calls_wait_long_for_are_told() {
        let via = "kiss.own = \"A\"\nkiss.peer = \"B\"\nkiss.via = [\"R\", \"R\"]\n";
        let fifo = "[policy]\npreset = \"fifo\"";
        for (rate, keys, seconds) in [
            ("1200 bit/s", "", None),
            ("9600 bit/s", "frame = \"1004 B\"", None),
            ("1200 bit/s", "frame = \"225 B\"", None),
            ("1200 bit/s", "frame = \"226 B\"", Some("1.5 s")),
            ("1200 bit/s", "frame = \"1004 B\"", Some("6.7 s")),
            (
                "1200 bit/s",
                "frame = \"1004 B\"\nsegment = \"100 B\"",
                None,
            ),
            (
                "1200 bit/s",
                &format!("frame = \"200 B\"\n{via}"),
                Some("1.5 s"),
            ),
            ("1200 bit/s", &format!("frame = \"1004 B\"\n{fifo}"), None),
            ("1200 bit/s", "profile = \"hbh\"", Some("10.2 s")),
        ] {
            let told = node(rate, keys).unwrap().long_frames();
            assert_eq!(
                told.len(),
                usize::from(seconds.is_some()),
                "{keys} {told:?}"
            );
            for (told, seconds) in told.iter().zip(seconds) {
                assert!(told.starts_with("[[port]] radio frame: "), "{told}");
                assert!(told.contains(seconds), "{told}");
            }
        }
    }

    #[test]
    fn what_a_modem_has_in_hand_is_not_interrupted() {
        for (keys, octets) in [
            ("", 256),
            ("frame = \"64 B\"", 128),
            ("profile = \"plain\"", 3000),
            ("profile = \"hbh\"", 3068),
        ] {
            let port = &node("1200 bit/s", keys).unwrap().ports[0];
            assert_eq!(port.uncut_octets(), octets, "{keys}");
        }
    }

    #[test]
    fn a_modem_is_in_one_place() {
        let both = "kiss.modem = \"127.0.0.1:8001\"\ndevice = \"/dev/ttyUSB0\"\nbaud = 9600";
        let refused = node("1200 bit/s", both).unwrap_err();
        assert!(
            refused.contains("kiss.modem") && refused.contains("`device`"),
            "{refused}"
        );
    }

    #[test]
    fn several_others_are_neighbours_with_call_signs() {
        let with = |kiss: &str, others: &str| {
            let route = "[[route]]\nprefix = \"10.0.0.0/8\"\nport = \"radio\"\nvia = \"b\"";
            let keys = format!("neighbours = [{others}]\n{kiss}\n{route}\n");
            node("1200 bit/s", &keys)
        };
        let own = "kiss.own = \"A-1\"";
        let two = "{ name = \"b\", call = \"B-2\" }, { name = \"c\", call = \"C-3\" }";
        let good = with(own, two).unwrap();
        let (_, others) = good.ports[0].kiss_stations().unwrap();
        let others: Vec<String> = others.iter().map(ToString::to_string).collect();
        assert_eq!(others, ["B-2", "C-3"]);
        for (kiss, others, why) in [
            ("", two, "kiss.own"),
            (own, "{ name = \"b\" }", "`call`"),
            (own, "{ name = \"b\", call = \"A-1\" }", "kiss.own"),
            (own, "{ name = \"b\", call = \"B-16\" }", "kiss.own"),
            (
                "kiss.own = \"A-1\"\nkiss.peer = \"B-2\"",
                two,
                "in place of `peer`",
            ),
            (own, "{ name = \"b\", address = \"10.0.0.1:1\" }", "`call`"),
        ] {
            let error = with(kiss, others).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn repeaters_are_call_signs() {
        let stations = "kiss.own = \"N0CALL-1\"\nkiss.peer = \"N0CALL-2\"\n";
        let via = |via: &str| node("1200 bit/s", &format!("{stations}kiss.via = [{via}]"));
        let good = via("\"R-1\", \"R-2\"").unwrap();
        assert_eq!(good.ports[0].kiss().unwrap().repeaters().unwrap().len(), 2);
        for bad in ["\"R-16\"", &"\"R\",".repeat(9)] {
            assert!(via(bad).unwrap_err().contains("kiss.via"), "{bad}");
        }
        let lone = node("1200 bit/s", "kiss.via = [\"R\"]").unwrap_err();
        assert!(lone.contains("beside `kiss.own`"), "{lone}");
    }

    #[test]
    fn a_frame_full_of_escapes_fits_into_dire_wolfs_buffer() {
        let eight = "frame = \"948 B\"\nkiss.own = \"A\"\nkiss.peer = \"B\"\nkiss.via = [\"R\", \
                     \"R\", \"R\", \"R\", \"R\", \"R\", \"R\", \"R\"]";
        assert!(node("9600 bit/s", eight).is_ok());
        for (keys, most) in [
            ("frame = \"1005 B\"", "16 to 1004 octets"),
            ("frame = \"2028 B\"\nprofile = \"hbh\"", "16 to 2027 octets"),
            ("mtu = \"3000 B\"\nprofile = \"hbh\"", "16 to 2027 octets"),
            (&eight.replace("948", "949"), "16 to 948 octets"),
        ] {
            let refused = node("9600 bit/s", keys).unwrap_err();
            assert!(refused.contains(most), "{refused}");
        }
    }

    #[test]
    fn plain_ip_needs_stations_and_has_nothing_of_ours() {
        let ip = "profile = \"ip\"\nkiss.own = \"A\"\nkiss.peer = \"B\"\n";
        let port = &node("1200 bit/s", ip).unwrap().ports[0];
        assert_eq!((port.frame_octets_max(), port.mtu_octets()), (256, 256));
        for (keys, key) in [
            ("profile = \"ip\"", "kiss.own"),
            (&format!("{ip}frame = \"67 B\""), "frame"),
            (&format!("{ip}compression = \"rohc\""), "compression"),
            (&format!("{ip}check = 16"), "check"),
            (&format!("{ip}remember_flows = true"), "remember_flows"),
            (&format!("{ip}way_back = false"), "way_back"),
            (&format!("{ip}keeps_order = true"), "keeps_order"),
        ] {
            assert!(
                node("1200 bit/s", keys).unwrap_err().contains(key),
                "{keys}"
            );
        }
        let serial = "name = \"a\"\nhost = {}\n[[port]]\nname = \"line\"\nkind = \"serial\"\n\
                      baud = 9600\nprofile = \"ip\"\n";
        let config: NodeConfig = config_text::parse("a.toml", serial).unwrap();
        let refused = config.validate().unwrap_err().to_string();
        assert!(refused.contains("profile"), "{refused}");
    }
}
