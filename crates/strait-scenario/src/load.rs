//! From a scenario file to everything it names, checked.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use strait_channel::{LinkConfig, LinkKind};
use strait_core::keys::KeyError;
use strait_node::config::{OwnDictionary, TlsConfig};
use strait_node::config_text::{self, ConfigError};
use strait_node::{Gateway, NodeConfig};
use strait_traffic::mgen::{Script, read_capture};
use strait_traffic::{ScriptSource, ScriptText, TrafficConfig, TrafficKeys};
use toml::{Table, Value};

use crate::link::named_or_here;
use crate::{Membership, Scenario, check, medium};

/// Where the text of files comes from.
pub trait Files {
    /// The whole text of a file.
    ///
    /// # Errors
    /// Why it can't be read, for people.
    fn read(&self, path: &Path) -> Result<String, String>;

    /// All octets of a file that is no text.
    ///
    /// # Errors
    /// Why it can't be read, for people.
    fn read_octets(&self, path: &Path) -> Result<Vec<u8>, String> {
        self.read(path).map(String::into_bytes)
    }
}

/// The files of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFiles;

impl DiskFiles {
    /// Octets of a configuration file. A guard against naming the wrong file.
    pub const OCTETS_MAX: u64 = 4_000_000;
    /// Octets of a capture that are read: what comes after them is left out.
    pub const CAPTURE_OCTETS_MAX: u64 = 1 << 30;
}

impl Files for DiskFiles {
    fn read(&self, path: &Path) -> Result<String, String> {
        let unreadable = |error: std::io::Error| format!("can't be read: {error}");
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let mut text = String::new();
        let mut limited = file.take(Self::OCTETS_MAX + 1);
        limited.read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > Self::OCTETS_MAX {
            return Err(format!(
                "is no configuration: longer than {} octets",
                Self::OCTETS_MAX
            ));
        }
        Ok(text)
    }

    fn read_octets(&self, path: &Path) -> Result<Vec<u8>, String> {
        let unreadable = |error: std::io::Error| format!("can't be read: {error}");
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let mut octets = Vec::new();
        let mut limited = file.take(Self::CAPTURE_OCTETS_MAX);
        limited.read_to_end(&mut octets).map_err(unreadable)?;
        Ok(octets)
    }
}

/// A scenario with all it names: everything that a run depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The scenario's file as the user named it.
    pub file: String,
    /// The scenario as written, but for policy files, whose content stands in the variants.
    pub scenario: Scenario,
    /// The gateways, in the scenario's order.
    pub nodes: Vec<LoadedNode>,
    /// The links, in the scenario's order, and then the paths of its media.
    pub links: Vec<Link>,
}

/// A gateway's configuration before variants.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedNode {
    /// Its name.
    pub name: String,
    /// The file that it comes from, for errors.
    pub file: String,
    /// Its node file's content, with the scenario's name for it and its policy file's content.
    pub table: Table,
    /// The same, read.
    pub config: NodeConfig,
}

/// A link's two ends and its medium.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The name that metrics use.
    pub name: String,
    /// Ends a and b.
    pub ends: [LinkEnd; 2],
    /// The medium.
    pub channel: LinkConfig,
    /// The hosts at whose addresses the ends are, if other gateways are the medium. `channel` says
    /// nothing then.
    pub over: Option<[String; 2]>,
    /// The stations whose clients the ends are, if these are the medium. `channel` says nothing
    /// then.
    pub stations: Option<[LinkEnd; 2]>,
    /// The medium that it is a path of, if many can share that.
    pub medium: Option<Membership>,
}

impl Loaded {
    /// The ways of stations that share a cell, by their nodes: times in s and places in metres.
    pub fn ways(&self) -> BTreeMap<&str, Vec<[f64; 3]>> {
        let mut ways = BTreeMap::new();
        let lasts_s = self.scenario.duration.0.as_secs_f64();
        for link in &self.links {
            if let (Some(medium), LinkKind::Cell(cell)) = (&link.medium, &link.channel.kind) {
                for (end, station) in link.ends.iter().zip(medium.stations) {
                    let way = || {
                        let mut knots = cell.way(station);
                        let within = knots.partition_point(|[time, ..]| *time <= lasts_s);
                        knots.truncate(within + 1);
                        knots
                    };
                    ways.entry(end.node.as_str()).or_insert_with(way);
                }
            }
        }
        ways
    }
}

impl Link {
    /// Where the scenario's text has it, as its place in [`Loaded::links`] is `index`.
    pub(super) fn place(&self, index: usize) -> String {
        match &self.medium {
            Some(medium) => format!("medium.{}", medium.index),
            None => format!("link.{index}"),
        }
    }

    /// Where the scenario's text has an end of it.
    pub(super) fn place_of_end(&self, index: usize, end: usize) -> String {
        match &self.medium {
            Some(medium) => format!("medium.{}.stations.{}", medium.index, medium.stations[end]),
            None => format!("link.{index}.between.{end}"),
        }
    }

    /// Any number of stations may be on its medium, whether or not they know each other.
    pub fn is_shared(&self) -> bool {
        self.medium.is_some() && self.channel.kind.is_shared()
    }

    /// It has no medium of its own: others carry it.
    pub const fn is_carried(&self) -> bool {
        self.over.is_some() || self.stations.is_some()
    }
}

/// Where a link ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkEnd {
    /// Name of the gateway, router or host.
    pub node: String,
    /// Name of the gateway's port, or [`LinkEnd::HOST`].
    pub port: Option<String>,
}

impl LinkEnd {
    /// In place of a port: the machine that the gateway runs on. The link is another interface of
    /// its kernel's.
    pub const HOST: &str = "host";

    /// Whether it is at a gateway's machine.
    pub fn is_host(&self) -> bool {
        self.port.as_deref() == Some(Self::HOST)
    }

    pub(crate) fn parse(text: &str) -> Self {
        match text.split_once('.') {
            Some((node, port)) => Self {
                node: node.into(),
                port: Some(port.into()),
            },
            None => Self {
                node: text.into(),
                port: None,
            },
        }
    }
}

impl Scenario {
    /// Reads a scenario and every file it names, and checks that they fit each other.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn load(path: &Path) -> Result<Loaded, ConfigError> {
        Self::load_from(&DiskFiles, path)
    }

    /// The same with files from elsewhere.
    ///
    /// # Errors
    /// As for [`Scenario::load`].
    pub fn load_from(files: &dyn Files, path: &Path) -> Result<Loaded, ConfigError> {
        let text = read(files, path)?;
        Self::load_text(files, path, &text)
    }

    /// The same for a text that is already there, such as one that the program brings along.
    ///
    /// # Errors
    /// As for [`Scenario::load`].
    pub fn load_text(files: &dyn Files, path: &Path, text: &str) -> Result<Loaded, ConfigError> {
        let file = path.display().to_string();
        let mut scenario: Self = config_text::parse(&file, text)?;
        let source = Source {
            file: &file,
            text,
            path,
        };
        for index in 0..scenario.traffic.len() {
            inline_script(files, &source, index, &mut scenario.traffic[index])?;
            change_traffic(&source, index, &mut scenario.traffic[index], |keys| {
                if let Some(tls) = &mut keys.tls {
                    tls.trust = beside(path, &tls.trust).display().to_string();
                }
            })?;
        }
        check::names(&source, &scenario)?;
        for variant in &mut scenario.variants {
            inline_files(files, path, &mut variant.node)?;
        }
        let nodes = load_nodes(files, &source, &scenario)?;
        let mut links = load_links(files, &source, &scenario)?;
        links.extend(medium::load(files, &source, &scenario)?);
        let loaded = Loaded {
            file: file.clone(),
            scenario,
            nodes,
            links,
        };
        check::references(&source, &loaded)?;
        check::axes(&source, &loaded)?;
        Ok(loaded)
    }
}

/// The scenario's text, for errors that name its lines.
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
    pub(super) path: &'a Path,
}

impl Source<'_> {
    pub(super) fn error(&self, path: &str, message: &str) -> ConfigError {
        config_text::error_at(self.file, self.text, path, message)
    }

    pub(super) fn unknown(
        &self,
        path: &str,
        what: &str,
        found: &str,
        valid: &[&str],
    ) -> ConfigError {
        config_text::unknown_name(self.file, self.text, path, what, found, valid)
    }
}

pub(super) fn read(files: &dyn Files, path: &Path) -> Result<String, ConfigError> {
    let file = path.display().to_string();
    files
        .read(path)
        .map_err(|message| ConfigError::of_file(&file, message))
}

/// The file that `name` means in a file at `path`.
pub(super) fn beside(path: &Path, name: &str) -> PathBuf {
    path.parent()
        .map_or_else(|| PathBuf::from(name), |folder| folder.join(name))
}

fn load_nodes(
    files: &dyn Files,
    source: &Source<'_>,
    scenario: &Scenario,
) -> Result<Vec<LoadedNode>, ConfigError> {
    let load = |(index, entry): (usize, &crate::NodeEntry)| {
        let (file, path, mut table) = match (&entry.file, &entry.config) {
            (Some(name), None) => {
                let path = beside(source.path, name);
                let text = read(files, &path)
                    .map_err(|error| unreadable(source, &format!("node.{index}.file"), &error))?;
                let file = path.display().to_string();
                // Read for its errors, which still have lines here.
                NodeConfig::from_text(&file, &text)?;
                let table: Table = config_text::parse(&file, &text)?;
                (file, path, table)
            }
            (None, Some(table)) => {
                let file = format!("{}: [node.config] of {}", source.file, entry.name);
                (file, source.path.to_path_buf(), table.clone())
            }
            _ => {
                let message = format!("node `{}` needs either `file` or [node.config]", entry.name);
                return Err(source.error(&format!("node.{index}"), &message));
            }
        };
        table.insert("name".into(), entry.name.clone().into());
        inline_files(files, &path, &mut table)?;
        let config = NodeConfig::from_table(&file, &table)?;
        if entry.storage.is_some() && config.state.is_none() {
            let message =
                "needs the table [state] in the node file: without it there is no storage";
            return Err(source.error(&format!("node.{index}.storage"), message));
        }
        let name = entry.name.clone();
        Ok(LoadedNode {
            name,
            file,
            table,
            config,
        })
    };
    scenario.nodes.iter().enumerate().map(load).collect()
}

/// A file that isn't there is an error of the line that names it.
pub(super) fn unreadable(source: &Source<'_>, path: &str, error: &ConfigError) -> ConfigError {
    source.error(path, &format!("{} {}", error.file, error.message))
}

fn load_links(
    files: &dyn Files,
    source: &Source<'_>,
    scenario: &Scenario,
) -> Result<Vec<Link>, ConfigError> {
    let load = |(index, entry): (usize, &crate::LinkEntry)| {
        let carried = usize::from(entry.over.is_some()) + usize::from(entry.stations.is_some());
        let place = format!("link.{index}");
        let own = match carried {
            0 => named_or_here(files, source, &place, &entry.file, &entry.channel)?,
            _ => None,
        };
        let channel = match own {
            None if carried == 1 && entry.file.is_none() && entry.channel.is_none() => {
                LinkConfig::frames(1_000_000_000, strait_core::time::Duration::ZERO)
            }
            Some(channel) => channel,
            None => {
                let message = "a link needs one of `file`, [link.channel], `over` and `stations`";
                return Err(source.error(&place, message));
            }
        };
        let ends = entry.between.each_ref().map(|end| LinkEnd::parse(end));
        let name = entry.name.clone().unwrap_or_else(|| match &ends[0].port {
            Some(port) => port.clone(),
            None => format!("{}-{}", ends[0].node, ends[1].node),
        });
        Ok(Link {
            name,
            ends,
            channel,
            over: entry.over.clone(),
            stations: entry
                .stations
                .as_ref()
                .map(|it| it.each_ref().map(|end| LinkEnd::parse(end))),
            medium: None,
        })
    };
    scenario.links.iter().enumerate().map(load).collect()
}

/// Changes keys of a traffic. What can't be so is an error at its key.
fn change_traffic(
    source: &Source<'_>,
    index: usize,
    traffic: &mut TrafficConfig,
    change: impl FnOnce(&mut TrafficKeys),
) -> Result<(), ConfigError> {
    let wrong =
        |error: KeyError| source.error(&format!("traffic.{index}.{}", error.key), &error.why);
    traffic.change(change).map_err(wrong)
}

/// Puts a script in place of its file's name, and the captures that it repeats beside it.
fn inline_script(
    files: &dyn Files,
    source: &Source<'_>,
    index: usize,
    traffic: &mut TrafficConfig,
) -> Result<(), ConfigError> {
    let key = format!("traffic.{index}.script");
    let (origin, whole) = match &traffic.script {
        None => return Ok(()),
        Some(ScriptSource::File(name)) => {
            let path = beside(source.path, name);
            let text = read(files, &path).map_err(|error| unreadable(source, &key, &error))?;
            let captures = BTreeMap::new();
            (path, ScriptText { text, captures })
        }
        Some(ScriptSource::Whole(whole)) => (source.path.to_path_buf(), whole.clone()),
    };
    let ScriptText { text, mut captures } = whole;
    let script = Script::parse(&text).map_err(|error| ConfigError {
        line: Some(error.line),
        column: Some(error.column),
        ..ConfigError::of_file(
            &origin.display().to_string(),
            format!("column {}: {}", error.column, error.message),
        )
    })?;
    for name in script.captures() {
        if captures.contains_key(name) {
            continue;
        }
        let path = beside(&origin, name);
        let wrong = |why: String| source.error(&key, &format!("{} {why}", path.display()));
        let octets = files.read_octets(&path).map_err(wrong)?;
        let frames =
            read_capture(&octets).map_err(|error| wrong(format!("doesn't serve: {error}")))?;
        let frames = frames.iter().take(CAPTURED_MAX);
        let frames = frames.map(|frame| (frame.gap_ns, frame.octets)).collect();
        captures.insert(name.into(), frames);
    }
    change_traffic(source, index, traffic, |keys| {
        keys.script = Some(ScriptSource::Whole(ScriptText { text, captures }));
    })
}

/// Frames of a capture in a scenario. They are part of the resolved configuration.
const CAPTURED_MAX: usize = 100_000;

/// Puts the content of `[policy] file` in place of its name, so that a result can be repeated from
/// its resolved configuration alone. Other keys beside `file` win over the file's.
fn inline_policy(files: &dyn Files, path: &Path, node: &mut Table) -> Result<(), ConfigError> {
    let Some(Value::Table(policy)) = node.get_mut("policy") else {
        return Ok(());
    };
    let Some(Value::String(name)) = policy.get("file") else {
        return Ok(());
    };
    let path = beside(path, name);
    let text = read(files, &path)?;
    let mut content: Table = config_text::parse(&path.display().to_string(), &text)?;
    policy.remove("file");
    let _ = config_text::merge(&mut content, policy);
    *policy = content;
    Ok(())
}

/// The same for `dictionary_file` of the ports: a list in a node file, by name in a variant.
fn inline_dictionaries(
    files: &dyn Files,
    path: &Path,
    node: &mut Table,
) -> Result<(), ConfigError> {
    let ports: Vec<&mut Value> = match node.get_mut("port") {
        Some(Value::Array(ports)) => ports.iter_mut().collect(),
        Some(Value::Table(ports)) => ports.iter_mut().map(|(_, port)| port).collect(),
        _ => return Ok(()),
    };
    for port in ports.into_iter().filter_map(Value::as_table_mut) {
        let Some(Value::String(name)) = port.get("dictionary_file") else {
            continue;
        };
        let path = beside(path, name);
        let wrong = |why: String| ConfigError::of_file(&path.display().to_string(), why);
        let octets = files.read_octets(&path).map_err(wrong)?;
        let own = OwnDictionary::new(octets).map_err(wrong)?;
        port.remove("dictionary_file");
        port.insert("dictionary".into(), Value::String(own.into()));
    }
    Ok(())
}

/// Says of the files of certificates, keys and passwords where they are: beside the file that names
/// them. Nobody but a driver reads them.
fn place_secrets(path: &Path, node: &mut Table) {
    let place = |table: &mut Table, key: &str| {
        if let Some(Value::String(name)) = table.get_mut(key)
            && !TlsConfig::has_pins(name)
        {
            *name = beside(path, name).display().to_string();
        }
    };
    let profiles = node.get_mut("tls").and_then(Value::as_table_mut);
    for (_, profile) in profiles.into_iter().flatten() {
        for key in ["certificate", "key", "trust"] {
            profile
                .as_table_mut()
                .into_iter()
                .for_each(|it| place(it, key));
        }
    }
    let mail = node.get_mut("mail").and_then(Value::as_table_mut);
    for route in mail.into_iter().flat_map(|it| tables(it, "route")) {
        place(route, "password_file");
        tables(route, "next").for_each(|it| place(it, "password_file"));
    }
}

/// The tables of a list.
fn tables<'a>(of: &'a mut Table, key: &str) -> impl Iterator<Item = &'a mut Table> {
    let list = of.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_table_mut)
}

/// Puts the content of all files that a node file names in place of their names, but that of
/// certificates, keys and passwords.
fn inline_files(files: &dyn Files, path: &Path, node: &mut Table) -> Result<(), ConfigError> {
    place_secrets(path, node);
    inline_policy(files, path, node)?;
    inline_dictionaries(files, path, node)
}

/// A flow's configuration by the text of its table.
///
/// # Errors
/// As for [`config_text::parse`].
pub fn traffic_of(text: &str) -> Result<TrafficConfig, ConfigError> {
    config_text::parse("traffic", text)
}

/// Reads a node file, with the content of the files that it names in place, and checks it: what
/// `strait run` runs.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn load_node(files: &dyn Files, path: &Path) -> Result<NodeConfig, ConfigError> {
    let text = read(files, path)?;
    let file = path.display().to_string();
    // Read for its errors, which still have lines here.
    let config = NodeConfig::from_text(&file, &text)?;
    let mut table: Table = config_text::parse(&file, &text)?;
    let written = table.clone();
    inline_files(files, path, &mut table)?;
    let config = if table == written {
        config
    } else {
        NodeConfig::from_table(&file, &table)?
    };
    match Gateway::new(&config) {
        Ok(_) => Ok(config),
        Err(error) => Err(ConfigError {
            line: line_of(&file, &text, &error.place),
            ..ConfigError::of_file(&file, error.to_string())
        }),
    }
}

/// The line of a place such as `[echo] store`, where it can be found so.
fn line_of(file: &str, text: &str, place: &str) -> Option<u32> {
    let path = match place.strip_prefix("[[host]] ") {
        Some(side) => format!("host.{}", side.replace(' ', ".")),
        None => {
            let (table, key) = place.strip_prefix('[')?.split_once("] ")?;
            format!("{table}.{key}")
        }
    };
    config_text::error_at(file, text, &path, "").line
}

impl Loaded {
    /// A gateway's node file as `variant` changes it: what `strait run` would read.
    ///
    /// A name that is no variant's gives the scenario's own.
    pub fn node_table(&self, variant: &str, node: &LoadedNode) -> Table {
        let mut table = node.table.clone();
        let overlays = self
            .scenario
            .variants
            .iter()
            .filter(|other| other.name == variant);
        for overlay in overlays {
            if overlay.node.contains_key("policy") {
                table.remove("policy");
            }
            let _ = config_text::merge(&mut table, &overlay.node);
        }
        table
    }

    /// The traffic as `variant` changes it. What [`Scenario::load`] gave was checked for every
    /// variant.
    ///
    /// # Errors
    /// The first thing that the variant makes wrong.
    pub fn traffic(&self, variant: &str) -> Result<Vec<TrafficConfig>, ConfigError> {
        let mut variants = self.scenario.variants.iter();
        let overlay = variants.find(|it| it.name == variant);
        let traffic = self.scenario.traffic.iter();
        traffic
            .map(|config| {
                let keys = overlay.and_then(|it| it.traffic.get(&config.name)?.as_table());
                let Some(keys) = keys else {
                    return Ok(config.clone());
                };
                let name = &config.name;
                let origin = format!("{}: traffic `{name}` with variant `{variant}`", self.file);
                let own: &TrafficKeys = config;
                let table = Table::try_from(own);
                let mut table =
                    table.map_err(|error| ConfigError::of_file(&origin, error.to_string()))?;
                let _ = config_text::merge(&mut table, keys);
                config_text::from_table(&origin, &table)
            })
            .collect()
    }

    /// A gateway's node file as `variant` changes it, read and checked. What [`Scenario::load`]
    /// gave was checked for every variant.
    ///
    /// # Errors
    /// The first thing that the variant makes wrong.
    pub fn node_config(&self, variant: &str, node: &LoadedNode) -> Result<NodeConfig, ConfigError> {
        let origin = self.node_origin(variant, node);
        let mut config = NodeConfig::from_table(&origin, &self.node_table(variant, node))?;
        self.tell_of_modems(node, &mut config);
        match Gateway::new(&config) {
            Ok(_) => Ok(config),
            Err(error) => Err(ConfigError::of_file(&origin, error.to_string())),
        }
    }

    /// Says by which waveforms the radios of a gateway can send: those of their links.
    fn tell_of_modems(&self, node: &LoadedNode, config: &mut NodeConfig) {
        for port in &mut config.ports {
            let ends_here = |link: &&Link| {
                let here = |end: &LinkEnd| {
                    end.node == node.name && end.port.as_deref() == Some(port.name.as_str())
                };
                link.ends.iter().any(here)
            };
            let link = self.links.iter().find(ends_here);
            let channel = link.and_then(|link| link.channel.hf_config());
            if let (Some(radio), Some(channel)) = (port.hf_mut(), channel)
                && radio.adapt.is_some()
            {
                let modem = radio.modem.get_or_insert_default();
                modem.family = channel.family;
                modem.bandwidth = channel.bandwidth;
                modem.interleaver = channel.interleaver;
            }
        }
    }

    /// Where errors about a gateway under a variant come from.
    fn node_origin(&self, variant: &str, node: &LoadedNode) -> String {
        match variant {
            Scenario::BASE => node.file.clone(),
            variant => format!("{} with variant `{variant}`", node.file),
        }
    }

    /// The scenario with the content of every file in place: a scenario file again, that means the
    /// same and names no other. Written beside every result.
    pub fn resolved_text(&self) -> String {
        let mut scenario = self.scenario.clone();
        for (entry, node) in scenario.nodes.iter_mut().zip(&self.nodes) {
            entry.file = None;
            entry.config = Some(node.table.clone());
        }
        for (entry, link) in scenario.links.iter_mut().zip(&self.links) {
            entry.file = None;
            entry.name = Some(link.name.clone());
            entry.channel = (!link.is_carried()).then(|| link.channel.clone());
        }
        for (index, entry) in scenario.media.iter_mut().enumerate() {
            let of = |link: &&Link| link.medium.as_ref().is_some_and(|it| it.index == index);
            let path = self.links.iter().find(of);
            entry.file = None;
            entry.channel = path.map(|path| path.channel.clone());
        }
        // Only a number above TOML's largest can't be written, and none came from TOML.
        let text = Table::try_from(&scenario).map(|table| toml::to_string(&table));
        match text {
            Ok(Ok(text)) => text,
            Ok(Err(error)) | Err(error) => format!("# can't be written: {error}\n"),
        }
    }
}
