use std::collections::BTreeMap;
use std::path::Path;

use strait_core::PortId;
use strait_core::time::Duration;
use strait_node::config_text::ConfigError;

use super::*;
use crate::topology::{End, Lan, Role, Topology, Via};

/// Files by path.
struct Texts(BTreeMap<&'static str, &'static str>);

impl Files for Texts {
    fn read(&self, path: &Path) -> Result<String, String> {
        let path = path.display().to_string();
        let text = self.0.get(path.as_str());
        text.map(ToString::to_string)
            .ok_or_else(|| "can't be read: no such file".into())
    }
}

const NODE_A: &str = r#"
name = "a"
[host]
addresses = ["10.9.0.1/30", "fd00:9::1/64"]
[[port]]
name = "line"
kind = "serial"
baud = 9600
[policy]
preset = "default"
"#;

const NODE_B: &str = r#"
name = "b"
[host]
addresses = ["10.9.0.2/30"]
[[port]]
name = "line"
kind = "serial"
baud = 9600
"#;

const LINK: &str = "kind = \"serial\"\nbaud = 9600\nframing = \"8N1\"\ndelay = \"5 ms\"\n";

const SCENARIO: &str = r#"name = "serial-9600"
about = "Voice over a serial line."
duration = "45 s"
seed = 7
[[node]]
name = "a"
file = "../nodes/a.toml"
[[node]]
name = "b"
file = "../nodes/b.toml"
[[host]]
name = "ha"
behind = "a"
addresses = ["10.1.0.2/24", "fd00:1::2/64"]
gateway_addresses = ["10.1.0.1/24", "fd00:1::1/64"]
[[host]]
name = "hb"
behind = "b"
addresses = ["10.2.0.2/24", "fd00:2::2/64"]
[[link]]
between = ["a.line", "b.line"]
file = "../links/serial.toml"
[[traffic]]
name = "voice"
kind = "voice"
from = "ha"
to = "hb"
start = "1 s"
family = 6
payload = "31 B"
period = "200 ms"
[[fault]]
at = "20 s"
kind = "kill"
node = "a"
restart_after = "1 s"
[[variant]]
name = "fifo"
node = { policy = { preset = "fifo" }, port = { line = { profile = "plain" } } }
[[expect]]
id = "lab-voice-loss"
metric = "voice.loss"
max = 0.0
in = ["lab"]
"#;

fn texts() -> Texts {
    Texts(BTreeMap::from([
        ("lab/../nodes/a.toml", NODE_A),
        ("lab/../nodes/b.toml", NODE_B),
        ("lab/../links/serial.toml", LINK),
        (
            "lab/../nodes/fast.toml",
            "name = \"f\"\npolicy.file = \"../policies/p.toml\"\n[host]\n[[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = 19200\n",
        ),
        (
            "lab/../nodes/../policies/p.toml",
            "[[class]]\nname = \"all\"\n",
        ),
    ]))
}

fn load(text: &str) -> Result<Loaded, ConfigError> {
    Scenario::load_text(&texts(), Path::new("lab/x.toml"), text)
}

/// The scenario with one passage replaced.
fn changed(from: &str, to: &str) -> String {
    assert!(SCENARIO.contains(from), "{from}");
    SCENARIO.replacen(from, to, 1)
}

fn error(from: &str, to: &str) -> String {
    load(&changed(from, to)).map_or_else(|error| error.to_string(), |_| "no error".into())
}

#[test]
fn a_whole_scenario_loads() {
    let loaded = load(SCENARIO).unwrap();
    let scenario = &loaded.scenario;
    assert_eq!(scenario.duration.0, Duration::from_secs(45));
    assert_eq!((scenario.seed, scenario.runs), (7, 1));
    assert_eq!(
        scenario.variant_names().collect::<Vec<_>>(),
        ["strait", "fifo"]
    );
    assert_eq!(loaded.links[0].name, "line");
    let expectation = &scenario.expectations[0];
    assert_eq!(
        (expectation.variant.as_str(), expectation.unit()),
        ("strait", "")
    );
    assert!(expectation.applies_in(World::Lab) && !expectation.applies_in(World::Sim));
}

#[test]
fn a_variant_changes_ports_by_name_and_the_policy_whole() {
    let loaded = load(SCENARIO).unwrap();
    let base = loaded.node_table("strait", &loaded.nodes[0]);
    assert_eq!(base, loaded.nodes[0].table);
    let fifo = loaded.node_table("fifo", &loaded.nodes[0]);
    assert_eq!(fifo["policy"]["preset"].as_str(), Some("fifo"));
    assert_eq!(fifo["port"][0]["profile"].as_str(), Some("plain"));
    assert_eq!(fifo["port"][0]["baud"].as_integer(), Some(9600));
    assert_eq!(fifo["name"].as_str(), Some("a"));
}

#[test]
fn a_variant_changes_keys_of_traffic_by_name() {
    let file = "[[traffic]]\nname = \"file\"\nkind = \"tcp\"\nfrom = \"ha\"\nto = \"hb\"\n\
                octets = \"1 kB\"\nendpoint = \"linux-cubic\"\n[[fault]]\n";
    let base = changed("[[fault]]\n", file);
    let with = |keys: &str| {
        let node = "node = { policy";
        load(&base.replacen(node, &format!("traffic = {{ {keys} }}\n{node}"), 1))
    };
    let loaded = with("file = { endpoint = \"linux-bbr\", start = \"2 s\" }").unwrap();
    let endpoints = |loaded: &Loaded, variant: &str| {
        let traffic = loaded.traffic(variant).unwrap();
        traffic
            .iter()
            .map(|it| it.endpoint.clone())
            .collect::<Vec<_>>()
    };
    let [cubic, bbr] = ["linux-cubic", "linux-bbr"].map(|it| vec![None, Some(it.to_owned())]);
    assert_eq!(endpoints(&loaded, "strait"), cubic);
    assert_eq!(endpoints(&loaded, "fifo"), bbr);
    assert_eq!(
        loaded.traffic("fifo").unwrap()[0],
        loaded.scenario.traffic[0]
    );
    let again = load(&loaded.resolved_text()).unwrap();
    assert_eq!(endpoints(&again, "fifo"), bbr);
    for (keys, message) in [
        ("fil = { endpoint = \"linux-bbr\" }", "did you mean `file`?"),
        ("file = 3", "must be a table of keys"),
        ("file = { kind = \"page\" }", "is the same in all variants"),
        ("file = { to = \"ha\" }", "is the same in all variants"),
        (
            "file = { endpoint = \"tahoe\" }",
            "traffic `file` with variant `fifo`: endpoint: ",
        ),
        (
            "file = { endpont = \"linux-bbr\" }",
            "did you mean `endpoint`?",
        ),
        (
            "file = { start = \"45 s\" }",
            "is not before the end of the run",
        ),
        ("file = { sizes = [1000] }", "must be absent beside `sizes`"),
        ("voice = { rate = \"1 kbit/s\" }", "`rate`"),
    ] {
        let error = with(keys).unwrap_err().to_string();
        assert!(error.contains(message), "{keys}: {error}");
    }
}

#[test]
fn a_dictionary_stands_in_the_place_of_its_file() {
    let node = NODE_A.replace(
        "baud = 9600",
        "baud = 9600\npayload = \"deflate\"\ndictionary_file = \"../dict/own\"",
    );
    let text = |octets: &'static str| {
        let node: &'static str = node.clone().leak();
        Texts(BTreeMap::from([
            ("nodes/a.toml", node),
            ("nodes/../dict/own", octets),
        ]))
    };
    let load = |octets| load_node(&text(octets), Path::new("nodes/a.toml"));
    let port = &load("FUEL").unwrap().ports[0];
    assert_eq!(port.dictionary_file, None);
    assert!(port.payload_dictionary().octets().ends_with(b"FUEL"));
    let empty = load("").unwrap_err().to_string();
    assert_eq!(empty, "nodes/../dict/own: is empty");
    let none = Texts(BTreeMap::from([(
        "nodes/a.toml",
        node.clone().leak() as &str,
    )]));
    let gone = load_node(&none, Path::new("nodes/a.toml")).unwrap_err();
    assert!(
        gone.to_string()
            .starts_with("nodes/../dict/own: can't be read"),
        "{gone}"
    );
}

#[test]
fn a_policy_file_is_found_beside_the_file_that_names_it() {
    let text = SCENARIO
        .replace("/b.toml", "/fast.toml")
        .replace("a.toml", "fast.toml")
        .replace("../links/serial.toml", "l.toml");
    let mut files = texts();
    files.0.insert(
        "lab/l.toml",
        "kind = \"serial\"\nbaud = 19200\nframing = \"8N1\"\n",
    );
    let loaded = Scenario::load_text(&files, Path::new("lab/x.toml"), &text);
    let table = loaded.map(|loaded| loaded.nodes[0].table.clone()).unwrap();
    assert_eq!(table["policy"]["class"][0]["name"].as_str(), Some("all"));
    assert_eq!(table["policy"].get("file"), None);
}

#[test]
fn the_resolved_text_means_the_same_and_names_no_file() {
    let loaded = load(SCENARIO).unwrap();
    let text = loaded.resolved_text();
    let nothing = Texts(BTreeMap::new());
    let again = Scenario::load_text(&nothing, Path::new("lab/x.toml"), &text).unwrap();
    assert_eq!(again.links, loaded.links);
    assert_eq!(again.scenario.traffic, loaded.scenario.traffic);
    assert_eq!(again.scenario.variants, loaded.scenario.variants);
    for variant in ["strait", "fifo"] {
        for (one, other) in again.nodes.iter().zip(&loaded.nodes) {
            assert_eq!(
                again.node_table(variant, one),
                loaded.node_table(variant, other)
            );
        }
    }
    assert_eq!(again.resolved_text(), text);
    assert_eq!(Topology::new(&again), Topology::new(&loaded));
}

#[test]
fn wrong_keys_and_values_have_lines() {
    assert_eq!(
        error("behind = \"a\"", "behnid = \"a\""),
        "lab/x.toml:13: unknown key `behnid` in [[host]]; did you mean `behind`? \
         (valid keys: `name`, `behind`, `addresses`, `gateway_addresses`, `resolves`)"
    );
    assert_eq!(
        error("\"45 s\"", "\"45\""),
        "lab/x.toml:3: `duration` in the file's top level: `45` is no time: write it like \"50 ms\""
    );
    assert_eq!(
        error("\"10.1.0.2/24\"", "\"10.1.0.2/33\""),
        "lab/x.toml:14: `addresses` in [[host]]: `10.1.0.2/33` is no prefix: write it like \
         \"10.1.0.0/24\""
    );
    assert_eq!(
        error("\"kill\"", "\"kil\""),
        "lab/x.toml:34: `kind` in [[fault]]: unknown word `kil`; did you mean `kill`? \
         (valid words: `kill`, `unplug`, `clock`)"
    );
    assert_eq!(
        error("in = [\"lab\"]", "in = [\"labs\"]"),
        "lab/x.toml:44: `in` in [[expect]]: unknown word `labs`; did you mean `lab`? \
         (valid words: `sim`, `lab`)"
    );
    assert_eq!(
        error("duration = \"45 s\"\n", ""),
        "lab/x.toml: missing key `duration` in the file's top level"
    );
}

/// With another link, of the machines that the gateways run on.
fn with_satellite(ends: [&str; 2], kind: &str) -> Result<Loaded, ConfigError> {
    let [a, b] = ends;
    let channel = format!("kind = \"{kind}\", rate = \"64 kbit/s\"");
    let link = format!(
        "[[link]]\nname = \"sat\"\nbetween = [\"{a}\", \"{b}\"]\nchannel = {{ {channel} }}\n"
    );
    load(&changed("[[traffic]]", &format!("{link}[[traffic]]")))
}

#[test]
fn machines_of_gateways_have_other_ways() {
    let loaded = with_satellite(["a.host", "b.host"], "frames").unwrap();
    let topology = Topology::new(&loaded);
    let [a, b, ha] = ["a", "b", "ha"].map(|name| topology.find(name).unwrap());
    assert!(topology.has_machine(a) && topology.has_machine(b));
    let routes = &topology.members[a].routes;
    let prefixes = routes.iter().map(|route| route.prefix.to_string());
    let both = ["10.2.0.2/24", "fd00:2::2/64"];
    assert_eq!(prefixes.collect::<Vec<_>>(), both);
    assert_eq!((routes[0].via, routes[0].next), (Via::Link(1), Some(b)));
    // Hosts go by their gateway, and without such a link a gateway has no routes but its own.
    assert!(
        topology.members[ha]
            .routes
            .iter()
            .all(|it| it.next == Some(a))
    );
    let without = Topology::new(&load(SCENARIO).unwrap());
    assert!(!without.has_machine(a) && without.members[a].routes.is_empty());
    for (ends, kind) in [
        (["a.host", "b.host"], "serial"),
        (["a.host", "b.line"], "frames"),
    ] {
        assert!(with_satellite(ends, kind).is_err(), "{ends:?} {kind}");
    }
}

#[test]
fn a_serial_line_is_unplugged_and_nothing_else() {
    let fault = |keys: &str| {
        let text = changed("kind = \"kill\"\nnode = \"a\"", keys);
        load(&text).map_or_else(|error| error.to_string(), |_| String::new())
    };
    assert_eq!(fault("kind = \"unplug\"\nlink = \"line\""), "");
    for (keys, what) in [
        (
            "kind = \"unplug\"\nlink = \"lin\"",
            "no serial line `lin`; did you mean `line`?",
        ),
        ("kind = \"unplug\"\nnode = \"a\"", "is for other kinds"),
        ("kind = \"kill\"\nlink = \"line\"", "unplug it"),
        ("kind = \"kill\"\nnode = \"line\"", "no gateway `line`"),
    ] {
        let message = fault(keys);
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn names_are_known_and_unique() {
    assert_eq!(
        error("to = \"hb\"", "to = \"hc\""),
        "lab/x.toml:27: `to` in [[traffic]]: no host `hc`; did you mean `ha`? (hosts: `ha`, `hb`)"
    );
    assert_eq!(
        error("to = \"hb\"", "to = \"ha\""),
        "lab/x.toml:27: `to` in [[traffic]]: is its own source: name another host"
    );
    assert_eq!(
        error("behind = \"a\"", "behind = \"c\""),
        "lab/x.toml:13: `behind` in [[host]]: no node `c`; did you mean `a`? (nodes: `a`, `b`)"
    );
    assert_eq!(
        error("\"hb\"", "\"ha\""),
        "lab/x.toml:17: `name` in [[host]]: `ha` is taken: choose another"
    );
    assert_eq!(
        error("\"ha\"", "\"h a\""),
        "lab/x.toml:12: `name` in [[host]]: `h a` is no name: use 1 to 32 letters, digits, `-` \
         and `_`"
    );
    assert_eq!(
        error("node = \"a\"", "node = \"ha\""),
        "lab/x.toml:35: `node` in [[fault]]: no gateway `ha`; did you mean `a`? \
         (gateways: `a`, `b`)"
    );
    assert_eq!(
        error("name = \"fifo\"", "name = \"strait\""),
        "lab/x.toml:38: `name` in [[variant]]: is the name of the scenario itself: choose another"
    );
}

#[test]
fn links_end_at_ports_that_fit() {
    let at = "lab/x.toml:21: ";
    assert_eq!(
        error("a.line", "a.lime"),
        format!(
            "{at}`between` in [[link]]: no port of `a` has the name `lime`; did you mean `line`? \
             (ports: `line`)"
        )
    );
    assert_eq!(
        error("a.line", "a"),
        format!("{at}`between` in [[link]]: `a` is a gateway: name its port, as in `a.line`")
    );
    assert_eq!(
        error("a.line", "ha.line"),
        format!("{at}`between` in [[link]]: `ha` is no gateway: name it without a port")
    );
    assert_eq!(
        error("a.line", "hc"),
        format!(
            "{at}`between` in [[link]]: no node `hc`; did you mean `ha`? (nodes: `a`, `b`, `ha`, `hb`)"
        )
    );
    assert_eq!(
        error("nodes/a.toml", "nodes/fast.toml"),
        format!("{at}`between` in [[link]]: port `a.line` has 19200 baud, the link 9600")
    );
    assert_eq!(
        error(
            "file = \"../links/serial.toml\"",
            "channel = { kind = \"frames\", rate = \"9600 bit/s\" }"
        ),
        format!(
            "{at}`between` in [[link]]: port `a.line` is of kind `serial`, the link of kind `frames`"
        )
    );
    assert_eq!(
        error(
            "[[traffic]]",
            "[[link]]\nbetween = [\"a.line\", \"hb\"]\nfile = \"../links/serial.toml\"\n[[traffic]]"
        ),
        "lab/x.toml:24: `between` in [[link]]: the port has a link already; only one with \
         `neighbours` can have several"
    );
    assert_eq!(
        error("file = \"../links/serial.toml\"", ""),
        "lab/x.toml:20: [[link]]: a link needs one of `file`, [link.channel], `over` and `stations`"
    );
}

#[test]
fn files_that_are_missing_or_wrong_are_named() {
    assert_eq!(
        error("nodes/a.toml", "nodes/c.toml"),
        "lab/x.toml:7: `file` in [[node]]: lab/../nodes/c.toml can't be read: no such file"
    );
    assert_eq!(
        error("links/serial.toml", "nodes/a.toml"),
        "lab/../nodes/a.toml:3: unknown key `host` in the file's top level (valid keys: "
            .to_string()
            + error("links/serial.toml", "nodes/a.toml")
                .split("keys: ")
                .nth(1)
                .unwrap()
    );
    let missing = Scenario::load_from(&texts(), Path::new("y.toml")).unwrap_err();
    assert_eq!(missing.to_string(), "y.toml: can't be read: no such file");
}

#[test]
fn families_and_times_are_possible() {
    assert_eq!(
        error("\"10.2.0.2/24\", \"fd00:2::2/64\"", "\"10.2.0.2/24\""),
        "lab/x.toml:29: `family` in [[traffic]]: `hb` has no IPv6 address"
    );
    assert_eq!(
        error("family = 6", "family = 5"),
        "lab/x.toml:29: `family` in [[traffic]]: family is 4 or 6"
    );
    assert_eq!(
        error("start = \"1 s\"", "start = \"45 s\""),
        "lab/x.toml:28: `start` in [[traffic]]: is not before the end of the run, 45 s"
    );
    assert_eq!(
        error("start = \"1 s\"", "start = \"44999999999 ns\""),
        "no error"
    );
    assert_eq!(
        error("start = \"1 s\"", "start = \"1 s\"\nstop = \"1 s\""),
        "lab/x.toml:29: `stop` in [[traffic]]: is not after `start`"
    );
    assert_eq!(
        error("period", "rate = \"1 kbit/s\"\nperiod"),
        "lab/x.toml:31: `rate` in [[traffic]]: is for kind = \"udp\" or \"esp\" or \"tcp\", and this \
         traffic's is \"voice\": remove it"
    );
    assert_eq!(
        error("at = \"20 s\"", "at = \"1 h\""),
        "lab/x.toml:33: `at` in [[fault]]: is not before the end of the run, 45 s"
    );
    assert_eq!(
        error("\"10.2.0.2/24\"", "\"10.1.0.2/24\""),
        "lab/x.toml:19: `addresses` in [[host]]: 10.1.0.2 is the address of `ha`"
    );
    assert_eq!(
        error("\"10.1.0.1/24\"", "\"10.3.0.1/24\""),
        "lab/x.toml:15: `gateway_addresses` in [[host]]: no address of `ha` is in the network \
         10.3.0.1/24"
    );
    assert_eq!(error("seed = 7", "seed = 7\nruns = 0"), {
        "lab/x.toml:5: `runs` in the file's top level: must be 1 to 100000"
    });
}

#[test]
fn a_host_is_attached_once_and_reaches_its_peer() {
    assert_eq!(
        error("behind = \"a\"\n", ""),
        "lab/x.toml:11: [[host]]: `ha` is attached to nothing: write its `behind`, or link it"
    );
    let link = "[[link]]\nbetween = [\"a.line\", \"b.line\"]\nfile = \"../links/serial.toml\"\n";
    assert_eq!(
        error(link, ""),
        "lab/x.toml:24: `to` in [[traffic]]: no path leads from `ha` to `hb`"
    );
}

#[test]
fn variants_and_expectations_mean_something() {
    assert_eq!(
        error("port = { line", "port = { lime"),
        "lab/x.toml:39: `lime` in [variant.node.port]: no gateway has `port.lime`"
    );
    assert_eq!(
        error("voice.loss", "voice.los"),
        "lab/x.toml:42: `metric` in [[expect]]: no metric `voice.los`; did you mean `voice.loss`? \
         (metrics: "
            .to_string()
            + error("voice.loss", "voice.los")
                .split("(metrics: ")
                .nth(1)
                .unwrap()
    );
    assert_eq!(error("voice.loss", "line.use"), "no error");
    assert_eq!(
        error("max = 0.0\n", ""),
        "lab/x.toml:40: `max` in [[expect]]: an expectation needs `min` or `max`"
    );
    assert_eq!(
        error("max = 0.0", "max = 0.0\nmin = 1.0"),
        "lab/x.toml:44: `min` in [[expect]]: is above `max`"
    );
    assert_eq!(
        error("in = [\"lab\"]", "variant = \"fifi\""),
        "lab/x.toml:44: `variant` in [[expect]]: no variant `fifi`; did you mean `fifo`? \
         (variants: `strait`, `fifo`)"
    );
}

#[test]
fn the_topology_names_ends_and_lans() {
    let topology = Topology::new(&load(SCENARIO).unwrap());
    let names: Vec<_> = topology
        .members
        .iter()
        .map(|it| (it.name.as_str(), it.role))
        .collect();
    assert_eq!(
        names,
        [
            ("a", Role::Gateway(0)),
            ("b", Role::Gateway(1)),
            ("ha", Role::Host(0)),
            ("hb", Role::Host(1))
        ]
    );
    let end = |member| End {
        member,
        port: Some(PortId(1)),
        neighbour: None,
    };
    assert_eq!(topology.links[0].ends, [end(0), end(1)]);
    let gateway_addresses = vec![
        "10.1.0.1/24".parse().unwrap(),
        "fd00:1::1/64".parse().unwrap(),
    ];
    assert_eq!(
        topology.lans[0],
        Lan {
            gateway: 0,
            port: PortId::HOST,
            hosts: vec![2],
            gateway_addresses
        }
    );
    assert_eq!(topology.members[0].addresses.len(), 2);
    let routes = &topology.members[2].routes;
    let to_hb: Vec<_> = routes
        .iter()
        .map(|it| (it.prefix.to_string(), it.via, it.next))
        .collect();
    assert_eq!(
        to_hb,
        [
            ("10.2.0.2/24".into(), Via::Lan(0), Some(0)),
            ("fd00:2::2/64".into(), Via::Lan(0), Some(0))
        ]
    );
}

/// Four routers in a ring with a host at each end, and two ways of equal length.
const RING: &str = r#"name = "ring"
duration = "1 s"
router = [{ name = "r1" }, { name = "r2" }, { name = "r3" }, { name = "r4", queue = 5 }]
[[host]]
name = "h1"
behind = "r1"
addresses = ["10.1.0.2/24"]
[[host]]
name = "h2"
addresses = ["10.2.0.2/24"]
[[link]]
between = ["r1", "r2"]
channel = { kind = "frames", rate = "9600 bit/s" }
[[link]]
between = ["r1", "r4"]
channel = { kind = "frames", rate = "9600 bit/s" }
[[link]]
between = ["r4", "r3"]
channel = { kind = "frames", rate = "9600 bit/s" }
[[link]]
between = ["r2", "r3"]
channel = { kind = "frames", rate = "9600 bit/s" }
[[link]]
between = ["r3", "h2"]
channel = { kind = "frames", rate = "9600 bit/s" }
"#;

#[test]
fn routers_take_the_shortest_way_and_of_equal_ones_the_first_named() {
    let loaded = load(RING).unwrap();
    assert_eq!(loaded.links[1].name, "r1-r4");
    let topology = Topology::new(&loaded);
    let route = |router: &str, host: &str| {
        let member = &topology.members[topology.find(router).unwrap()];
        let host = &topology.members[topology.find(host).unwrap()];
        let route = member
            .routes
            .iter()
            .find(|route| route.prefix == host.addresses[0])
            .unwrap();
        (
            route.via,
            route.next.map(|next| topology.members[next].name.clone()),
        )
    };
    assert_eq!(route("r1", "h2"), (Via::Link(0), Some("r2".into())));
    assert_eq!(route("r4", "h2"), (Via::Link(2), Some("r3".into())));
    assert_eq!(route("r3", "h2"), (Via::Link(4), None));
    assert_eq!(route("r3", "h1"), (Via::Link(2), Some("r4".into())));
    assert_eq!(route("r1", "h1"), (Via::Lan(0), None));
    assert_eq!(route("h2", "h1"), (Via::Link(4), Some("r3".into())));
}

/// A hub with one UDP port and two neighbours on it.
const HUB: &str = r#"name = "hub"
duration = "1 s"
[[node]]
name = "hub"
[node.config.host]
[[node.config.port]]
name = "line"
kind = "serial"
baud = 9600
[[node.config.port]]
name = "net"
kind = "udp"
neighbours = [{ name = "x" }, { name = "y" }]
[[node.config.route]]
prefix = "10.1.0.0/24"
port = "net"
via = "x"
[[node]]
name = "y"
[node.config.host]
[[node.config.port]]
name = "net"
kind = "udp"
[[node]]
name = "x"
[node.config.host]
[[node.config.port]]
name = "net"
kind = "udp"
[[link]]
name = "to-y"
between = ["y.net", "hub.net"]
channel = { kind = "frames", rate = "9600 bit/s" }
[[link]]
name = "to-x"
between = ["hub.net", "x.net"]
channel = { kind = "frames", rate = "9600 bit/s" }
"#;

#[test]
fn a_shared_port_names_its_neighbours() {
    let topology = Topology::new(&load(HUB).unwrap());
    let hub = topology.find("hub").unwrap();
    let end = |neighbour| End {
        member: hub,
        port: Some(PortId(2)),
        neighbour: Some(neighbour),
    };
    assert_eq!(topology.links[0].ends[1], end(1));
    assert_eq!(topology.links[1].ends[0], end(0));
    assert_eq!(topology.links[0].ends[0].neighbour, None);
    let strange = HUB
        .replace("{ name = \"x\" }", "{ name = \"z\" }")
        .replace("via = \"x\"", "via = \"z\"");
    assert_eq!(
        load(&strange).unwrap_err().to_string(),
        "lab/x.toml:36: `between` in [[link]]: no neighbour `x`; did you mean `z`? \
         (neighbours: `z`, `y`)"
    );
}

#[test]
fn a_gateway_that_a_variant_breaks_is_named_with_the_variant() {
    assert_eq!(
        error("preset = \"fifo\"", "preset = \"fifi\""),
        "lab/../nodes/a.toml with variant `fifo`: [policy]: no preset `fifi`: write one of \
         default, fifo, voice-data, precedence, insc-1a, insc-1b, insc-1c, insc-2a, insc-2b, \
         insc-prio, cisco-wan-out, rfc4594"
    );
    assert_eq!(
        error("profile = \"plain\"", "profil = \"plain\"")
            .split(" (")
            .next(),
        Some(
            "lab/../nodes/a.toml with variant `fifo`: port.line.profil: unknown key `profil` in \
             [[port]]; did you mean `profile`?"
        )
    );
    assert_eq!(
        error(
            "file = \"../links/serial.toml\"",
            "channel = { kind = \"serial\", baud = 9600 }"
        ),
        "lab/x.toml:22: `framing` in [link.channel]: needed with kind = \"serial\": write framing = \
         \"8N1\""
    );
}

proptest::proptest! {
    #[test]
    fn a_damaged_scenario_gives_a_result(at in 0usize..2000, octets in 0usize..40, text in "[ -~\n]{0,12}") {
        for whole in [SCENARIO, RING, HUB] {
            let start = at % whole.len();
            let end = (start + octets).min(whole.len());
            let damaged = format!("{}{text}{}", &whole[..start], &whole[end..]);
            let _ = load(&damaged);
        }
    }
}
