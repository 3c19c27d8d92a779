//! The scenario's links: an emulator process for each, and what the gateways' ports attach to.

use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use strait_channel::{LinkConfig, LinkKind, Side};
use strait_core::prefix::Prefix;
use strait_core::units::Octets;
use strait_emulate::ModemSpec;
use strait_live::error::Error;
use strait_node::NodeConfig;
use strait_node::config::{
    HfModemConfig, KissConfig, KissPort, LineConfig, ModemTransport, NeighbourConfig, PortAddress,
    PortConfig, PortKind,
};
use strait_scenario::Loaded;
use strait_scenario::topology::{End, Member, Role, Topology, TopologyLink};

use crate::ground::net::{Net, is_bound, link_interface, whole};
use crate::ground::process::{Running, unwritable};
use crate::kernel::stations;
use crate::{END_PATIENCE, LabError, Stage};

/// The emulator of one link, or of all links between radios that share a channel.
#[derive(Debug)]
pub(crate) struct Wire {
    /// The link's name, or that of the net.
    pub(crate) name: String,
    paths: Vec<WirePath>,
    stats: PathBuf,
    ends: Vec<WireEnd>,
    running: Option<Running>,
}

/// A link of it.
#[derive(Debug)]
struct WirePath {
    name: String,
    file: PathBuf,
    /// Its ends, by their places.
    between: [usize; 2],
}

#[derive(Debug, PartialEq)]
enum WireEnd {
    Pty(PathBuf),
    KissPty(PathBuf),
    /// It tells its queue, or else gives notice; and the station whose radio it is.
    KissTcp(SocketAddr, bool, Option<String>),
    /// A radio's, with its name: `NODE.PORT`.
    Modem(String, ModemSpec),
    Udp {
        local: SocketAddr,
        peer: SocketAddr,
    },
    /// An interface of a router, host or gateway, where the kernel sends packets as they are.
    Tun {
        /// On a cell, as a card of the kernel's.
        ethernet: bool,
        name: String,
        role: Role,
        /// The role's namespace.
        path: PathBuf,
        addresses: Vec<Prefix>,
    },
}

impl WireEnd {
    fn argument(&self) -> String {
        match self {
            Self::Pty(path) => format!("pty:{}", path.display()),
            Self::KissPty(path) => format!("kiss:{}", path.display()),
            Self::KissTcp(address, true, _) => format!("direwolf:{address}"),
            Self::KissTcp(address, false, _) => format!("kiss:{address}"),
            Self::Modem(_, modem) => modem.to_string(),
            Self::Udp { local, peer } => format!("udp:{local}->{peer}"),
            Self::Tun {
                ethernet,
                name,
                path,
                addresses,
                ..
            } => {
                let own = addresses.iter();
                let own = own.map(|prefix| format!(",{prefix}"));
                let own: String = own.collect();
                let kind = if *ethernet { "tap" } else { "tun" };
                format!("{kind}:{name}@{}{own}", path.display())
            }
        }
    }

    fn is_ready(&self, net: &Net) -> Result<bool, Error> {
        match self {
            Self::Pty(path) | Self::KissPty(path) => Ok(fs::symlink_metadata(path).is_ok()),
            Self::Modem(_, modem) => is_bound(&net.links, !modem.datagrams, modem.address.port()),
            Self::KissTcp(address, ..) => is_bound(&net.links, true, address.port()),
            Self::Udp { local, .. } => is_bound(&net.links, false, local.port()),
            Self::Tun { name, role, .. } => {
                let link = net.of(*role).netlink()?.link(name);
                Ok(link.is_ok_and(|link| link.up))
            }
        }
    }
}

/// UDP ports of link ends begin here.
const PORTS_FROM: u16 = 7000;
/// How far above its data port a modem's control is.
const CONTROLS_ABOVE: u16 = 1000;

/// Lays all links of a scenario, and writes what they attach to into the gateways' node files, or
/// gives this kernel interfaces on them in place of the gateways.
pub(crate) fn lay(
    stage: &Stage<'_>,
    loaded: &Loaded,
    topology: &Topology,
    nodes: &mut [NodeConfig],
    by_kernel: bool,
) -> Result<Vec<Wire>, LabError> {
    for (link, config) in topology.links.iter().zip(&loaded.links) {
        carry(topology, nodes, link)?;
        if config.channel.kind.is_cell() {
            tune(topology, nodes, link, &config.channel);
        }
    }
    for cable in topology.cables() {
        stage.net.join_gateways(topology, &cable)?;
    }
    for (id, member) in topology.members.iter().enumerate() {
        if let Role::Gateway(gateway) = member.role
            && let Some(config) = nodes.get_mut(gateway)
        {
            topology.plug_cables(id, config);
        }
    }
    let links = topology.links.iter().zip(&loaded.links).enumerate();
    let mut wires = Vec::new();
    for (index, (link, config)) in links {
        if link.is_carried() {
            continue;
        }
        let cable = Cable {
            by_kernel,
            index,
            link,
            channel: &config.channel,
            addresses: loaded.scenario.links.get(index).and_then(|it| it.addresses),
            known: [0, 1].map(|side| {
                let before = loaded.links[..index].iter();
                config.is_shared()
                    && before
                        .flat_map(|other| &other.ends)
                        .any(|end| *end == config.ends[side])
            }),
        };
        join(&mut wires, lay_one(stage, topology, nodes, &cable)?);
    }
    Ok(wires)
}

/// Adds a link to the others: to those with which it has radios in common, if there are any.
fn join(wires: &mut Vec<Wire>, wire: Wire) {
    let radio = |end: &WireEnd| match end {
        WireEnd::Tun { ethernet, .. } => *ethernet,
        other => matches!(other, WireEnd::Modem(..) | WireEnd::KissTcp(..)),
    };
    let shares = |other: &mut Wire| {
        let mut radios = wire.ends.iter().filter(|end| radio(end));
        radios.any(|end| other.ends.contains(end))
    };
    let mut net: Option<Wire> = None;
    for part in wires.extract_if(.., shares) {
        match &mut net {
            Some(net) => net.absorb(part),
            None => net = Some(part),
        }
    }
    wires.push(match net {
        Some(mut net) => {
            net.absorb(wire);
            net
        }
        None => wire,
    });
}

/// Writes where the ends of a link are whose medium is other gateways.
fn carry(
    topology: &Topology,
    nodes: &mut [NodeConfig],
    link: &TopologyLink,
) -> Result<(), LabError> {
    let Some(sockets) = link.sockets(&topology.members) else {
        return Ok(());
    };
    for (side, end) in link.ends.iter().enumerate() {
        let other = &topology.members[link.ends[1 - side].member].name;
        let Some(config) = port_of(topology, nodes, end) else {
            let message = format!("link `{}` ends at no port", link.name);
            return Err(LabError::Scenario(message));
        };
        config.kind = PortKind::Udp(Some(sockets[side].into()));
        attach(&mut config.neighbours, other, sockets[1 - side].into());
    }
    Ok(())
}

/// Makes ports of a cell that the file leaves open ones with modems, each with a call sign.
fn tune(topology: &Topology, nodes: &mut [NodeConfig], link: &TopologyLink, channel: &LinkConfig) {
    let call = |end: &End| {
        let port = end.port.map_or(0, |port| port.index());
        format!("N{}P{port}", end.member)
    };
    for (end, other) in [0, 1].map(|side| (&link.ends[side], &link.ends[1 - side])) {
        let Some(port) = port_of(topology, nodes, end) else {
            continue;
        };
        if matches!(port.kind, PortKind::Udp(_) | PortKind::Ip(_)) {
            port.frame = Some(Octets(port.frame_octets_max() as u64));
            port.rate = port.rate.or_else(|| channel.direction(Side::A).rate);
            let modem = KissConfig {
                notice: Some(true),
                own: Some(call(end)),
                ..KissConfig::default()
            };
            let line = LineConfig::default();
            port.kind = PortKind::Kiss(KissPort { line, modem });
        }
        if port.kiss().is_none_or(|kiss| kiss.own != Some(call(end))) {
            continue;
        }
        let name = &topology.members[other.member].name;
        let mut neighbours = port.neighbours.iter_mut();
        if let Some(neighbour) = neighbours.find(|it| it.name == *name) {
            neighbour.call.get_or_insert_with(|| call(other));
        }
    }
}

/// The port of a gateway's node file at which a link ends.
fn port_of<'a>(
    topology: &Topology,
    nodes: &'a mut [NodeConfig],
    end: &End,
) -> Option<&'a mut PortConfig> {
    let Role::Gateway(gateway) = topology.members[end.member].role else {
        return None;
    };
    let ports = &mut nodes.get_mut(gateway)?.ports;
    ports.get_mut(end.port?.index().wrapping_sub(1))
}

/// A link of the scenario.
struct Cable<'a> {
    /// This kernel is in place of the gateways.
    by_kernel: bool,
    index: usize,
    link: &'a TopologyLink,
    channel: &'a LinkConfig,
    /// Of the interfaces that it is, if it is any.
    addresses: Option<[Prefix; 2]>,
    /// Whether its ends are stations that links before it have.
    known: [bool; 2],
}

fn lay_one(
    stage: &Stage<'_>,
    topology: &Topology,
    nodes: &mut [NodeConfig],
    cable: &Cable<'_>,
) -> Result<Wire, LabError> {
    let Cable {
        index,
        link,
        channel,
        ..
    } = *cable;
    let mut ends = Vec::new();
    for side in 0..2 {
        ends.push(lay_end(stage, topology, nodes, cable, side)?);
    }
    let channel = channel.clone().with(|it| it.ends = None);
    let text = toml::to_string(&channel).map_err(|error| unwritable(&link.name, error))?;
    let file = format!("link{index}.toml");
    Ok(Wire {
        name: link.name.clone(),
        paths: vec![WirePath {
            name: link.name.clone(),
            file: stage.scratch.write(&file, text.as_bytes())?,
            between: [0, 1],
        }],
        stats: stage.scratch.file(&format!("link{index}.stats.json")),
        ends,
        running: None,
    })
}

fn lay_end(
    stage: &Stage<'_>,
    topology: &Topology,
    nodes: &mut [NodeConfig],
    cable: &Cable<'_>,
    side: usize,
) -> Result<WireEnd, LabError> {
    let Cable {
        by_kernel,
        index,
        link,
        channel,
        addresses,
        known,
    } = *cable;
    let other = &topology.members[link.ends[1 - side].member].name;
    let end = &link.ends[side];
    let member = &topology.members[end.member];
    let (Role::Gateway(gateway), Some(port)) = (member.role, end.port) else {
        return lay_plain(stage, index, channel, member);
    };
    if by_kernel {
        return Ok(WireEnd::Tun {
            ethernet: true,
            name: stations::INTERFACE.into(),
            role: member.role,
            path: stage.net.of(member.role).path(),
            addresses: nodes
                .get(gateway)
                .map(stations::addresses)
                .unwrap_or_default(),
        });
    }
    let Some(config) = port_of(topology, nodes, end) else {
        return Err(LabError::Scenario(format!(
            "link `{}`: `{}` has no such port",
            link.name, member.name
        )));
    };
    let path = stage
        .scratch
        .file(&format!("link{index}-{}", ["a", "b"][side]));
    let far_port = PORTS_FROM + (index * 2 + side) as u16;
    let lone = config.neighbours.len() <= 1;
    let name = format!("{}.{}", member.name, config.name);
    match &mut config.kind {
        PortKind::Ip(ip) => {
            let Some(pair) = addresses else {
                let message = format!("link `{}` needs `addresses`", link.name);
                return Err(LabError::Scenario(message));
            };
            ip.local = Some(pair[side].address.into());
            // By the link's own interface, where the port has no other.
            ip.device = lone.then(|| link_interface(index));
            attach(&mut config.neighbours, other, pair[1 - side].address.into());
            Ok(stage.interface(index, member.role, vec![pair[side]]))
        }
        PortKind::Udp(local) if addresses.is_some() => {
            let Some(pair) = addresses else {
                unreachable!("the guard says so")
            };
            let number = |end: &End| PORTS_FROM + end.port.map_or(0, |port| u16::from(port.0));
            let any = IpAddr::from([0; 4]);
            *local = Some(SocketAddr::new(any, number(end)).into());
            let far = SocketAddr::new(pair[1 - side].address, number(&link.ends[1 - side]));
            attach(&mut config.neighbours, other, far.into());
            Ok(stage.interface(index, member.role, vec![pair[side]]))
        }
        PortKind::Serial(line) => {
            line.device = Some(path.display().to_string());
            Ok(WireEnd::Pty(path))
        }
        PortKind::Kiss(kiss) if kiss.line.device.is_some() => {
            kiss.line.device = Some(path.display().to_string());
            kiss.modem.modem = None;
            Ok(WireEnd::KissPty(path))
        }
        PortKind::Kiss(kiss) => {
            let modem = match kiss.modem.modem.filter(|_| known[side]) {
                Some(modem) => modem,
                None => {
                    let [_, far] = stage.net.join_link(gateway, index, side)?;
                    SocketAddr::new(far, far_port)
                }
            };
            kiss.modem.modem = Some(modem);
            let tells_queue = kiss.modem.notice != Some(true);
            let call = kiss.modem.own.clone().filter(|_| channel.kind.is_cell());
            Ok(WireEnd::KissTcp(modem, tells_queue, call))
        }
        PortKind::HfClient(_) => {
            let message = format!("link `{}`: its port needs `stations`", link.name);
            Err(LabError::Scenario(message))
        }
        PortKind::Hf(hf) => {
            // A radio that is there already has this link, too.
            if let Some(modem) = hf.modem.as_ref().and_then(spec) {
                return Ok(WireEnd::Modem(name, modem));
            }
            let [_, far] = stage.net.join_link(gateway, index, side)?;
            let at = [far_port, far_port + CONTROLS_ABOVE].map(|port| SocketAddr::new(far, port));
            plug(config, channel, Side::BOTH[side], at);
            let modem = config.hf().and_then(|hf| hf.modem.as_ref());
            let modem = modem
                .and_then(spec)
                .unwrap_or_else(|| ModemSpec::tcp(at[0]));
            Ok(WireEnd::Modem(name, modem))
        }
        PortKind::Udp(local) => {
            let [near, far] = stage.net.join_link(gateway, index, side)?;
            // One socket serves all neighbours on a port, whichever cable leads to them.
            let own = PORTS_FROM + u16::from(port.0);
            *local = Some(SocketAddr::from(([0, 0, 0, 0], own)).into());
            let local = SocketAddr::new(far, far_port);
            attach(&mut config.neighbours, other, local.into());
            Ok(WireEnd::Udp {
                local,
                peer: SocketAddr::new(near, own),
            })
        }
    }
}

/// The end of a link at a router, a host, or a gateway's machine: an interface of its own kernel.
fn lay_plain(
    stage: &Stage<'_>,
    index: usize,
    channel: &LinkConfig,
    member: &Member,
) -> Result<WireEnd, LabError> {
    if channel.kind != LinkKind::Frames {
        return Err(LabError::Scenario(format!(
            "`{}` is no gateway: live, only links of kind = \"frames\" end at it",
            member.name
        )));
    }
    // A router needs none: it forwards by interface.
    let own = match member.role {
        Role::Host(_) => member.addresses.as_slice(),
        _ => &[],
    };
    let own = own.iter().map(|prefix| Prefix {
        length: whole(prefix.address),
        ..*prefix
    });
    Ok(stage.interface(index, member.role, own.collect()))
}

impl Stage<'_> {
    /// A link's end that is an interface of a member's kernel.
    fn interface(&self, link: usize, role: Role, addresses: Vec<Prefix>) -> WireEnd {
        WireEnd::Tun {
            ethernet: false,
            name: link_interface(link),
            role,
            path: self.net.of(role).path(),
            addresses,
        }
    }
}

/// A port's modem as an end of the emulator, if it says where.
fn spec(modem: &HfModemConfig) -> Option<ModemSpec> {
    let datagrams = modem.transport == ModemTransport::Udp;
    Some(ModemSpec {
        datagrams,
        control: modem.control.filter(|_| !datagrams),
        ..ModemSpec::tcp(modem.address?)
    })
}

/// Tells a port with a radio of its modem, which is the link's but for how it is reached: data port
/// and control are at two addresses.
fn plug(port: &mut PortConfig, channel: &LinkConfig, side: Side, at: [SocketAddr; 2]) {
    port.rate = channel.direction(side).rate;
    let modem = port.hf().and_then(|hf| hf.modem.as_ref());
    let transport = modem.map_or_else(ModemTransport::default, |modem| modem.transport);
    if let (Some(station), Some(hf)) = (port.hf_mut(), channel.hf_config()) {
        station.modem = Some(HfModemConfig {
            address: Some(at[0]),
            transport,
            control: (transport == ModemTransport::Tcp).then_some(at[1]),
            family: hf.family,
            bandwidth: hf.bandwidth,
            interleaver: hf.interleaver,
            turnaround: hf.turnaround,
            preamble: hf.preamble,
            carrier_detect: hf.carrier_detect,
            delay: channel.direction(side).delay,
            decode: hf.decode,
            turn_max: hf.turn_max,
            ahead: None,
            start_blocks: hf.start_blocks,
        });
    }
}

/// Says where a neighbour is: at the emulator's near end.
fn attach(neighbours: &mut Vec<NeighbourConfig>, name: &str, address: PortAddress) {
    let named = neighbours.iter().position(|it| it.name == name);
    let lone = (neighbours.len() == 1).then_some(0);
    let known = named.or(lone).and_then(|index| neighbours.get_mut(index));
    match known {
        Some(neighbour) => neighbour.address = Some(address),
        None => neighbours.push(NeighbourConfig {
            name: name.to_owned(),
            address: Some(address),
            hf: None,
            call: None,
            rate: None,
        }),
    }
}

impl Wire {
    /// Starts the emulator.
    pub(crate) fn start(&mut self, stage: &Stage<'_>) -> Result<(), LabError> {
        let mut command = Command::new(stage.program);
        command.arg("emulate");
        // The names of its random streams: what befalls a frame is what befalls it simulated.
        let called = |end: &WireEnd| matches!(end, WireEnd::KissTcp(_, _, Some(_)));
        if let [path] = &self.paths[..]
            && !self.ends.iter().any(called)
        {
            command.arg(&path.file).args(["--name", &self.name]);
            command.args(["--a", &self.ends[0].argument()]);
            command.args(["--b", &self.ends[1].argument()]);
        } else {
            let file = format!("{}.toml", self.name);
            let file = stage.scratch.write(&file, self.net_text().as_bytes())?;
            command.arg("--net").arg(file);
        }
        command.args(["--seed", &stage.seed.to_string()]);
        command.arg("--stats").arg(&self.stats);
        let name = format!("emulate-{}", self.name);
        self.running = Some(stage.start(&stage.net.links, &name, command)?);
        Ok(())
    }

    /// Whether both of its ends are there.
    pub(crate) fn is_ready(&self, stage: &Stage<'_>) -> Result<bool, LabError> {
        self.expect_alive()?;
        for end in &self.ends {
            if !end.is_ready(stage.net)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes another's links, whose radios hear these.
    fn absorb(&mut self, other: Self) {
        if !self.name.starts_with("net-") {
            self.name = format!("net-{}", self.name);
        }
        let place = |end: WireEnd| {
            let known = self.ends.iter().position(|it| *it == end);
            known.unwrap_or_else(|| {
                self.ends.push(end);
                self.ends.len() - 1
            })
        };
        let places: Vec<usize> = other.ends.into_iter().map(place).collect();
        self.paths
            .extend(other.paths.into_iter().map(|path| WirePath {
                between: path.between.map(|end| places[end]),
                ..path
            }));
    }

    /// The net file of links between radios.
    fn net_text(&self) -> String {
        let name = |end: &WireEnd| match end {
            WireEnd::Modem(name, ..) => name.clone(),
            other => other.argument(),
        };
        let mut text = String::new();
        for end in &self.ends {
            let (name, at) = (name(end), end.argument());
            text += &format!("[[end]]\nname = {name:?}\nat = {at:?}\n");
            if let WireEnd::KissTcp(_, _, Some(call)) = end {
                text += &format!("call = {call:?}\n");
            }
        }
        for path in &self.paths {
            let between = path.between.map(|end| name(&self.ends[end]));
            let (name, file) = (&path.name, path.file.display().to_string());
            let keys = format!("name = {name:?}\nbetween = {between:?}\nfile = {file:?}\n");
            text += &format!("[[path]]\n{keys}");
        }
        text
    }

    /// Lets the hosts of gateways whose interface the link is speak over it as over others: with
    /// multicast, and an address that is good on the link alone.
    pub(crate) fn open_to_hosts(&self, net: &Net) -> Result<(), Error> {
        for (end, number) in self.ends.iter().zip(1..) {
            let WireEnd::Tun {
                ethernet: false,
                name,
                role: role @ Role::Gateway(_),
                ..
            } = end
            else {
                continue;
            };
            let mut netlink = net.of(*role).netlink()?;
            let index = netlink.link(name)?.index;
            netlink.set_multicast(index, name, true)?;
            let own = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number);
            netlink.add_address(index, name, own.into(), 64)?;
        }
        Ok(())
    }

    /// An emulator that ended is an error of the whole lab.
    pub(crate) fn expect_alive(&self) -> Result<(), LabError> {
        self.running.as_ref().map_or(Ok(()), Running::expect_alive)
    }

    /// Takes the medium from both ends at once.
    pub(crate) fn unplug(&mut self) {
        if let Some(running) = self.running.take() {
            running.end_by(Signal::SIGKILL, END_PATIENCE);
        }
    }

    pub(crate) fn running(&self) -> Option<&Running> {
        self.running.as_ref()
    }

    /// What the emulator counted, once it has ended.
    pub(crate) fn stats(&self) -> Option<serde_json::Value> {
        serde_json::from_str(&fs::read_to_string(&self.stats).ok()?).ok()
    }
}
