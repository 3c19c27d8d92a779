use alloc::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only read")]
struct File {
    name: String,
    host: Option<Host>,
    #[serde(default)]
    port: Vec<Port>,
    #[serde(default)]
    traffic: Vec<Traffic>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only read")]
struct Host {
    mtu: u16,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only read")]
struct Port {
    name: String,
    baud: Option<u32>,
    framing: Option<String>,
    #[serde(default)]
    neighbours: Vec<Neighbour>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "only read")]
struct Neighbour {
    name: String,
    address: core::net::SocketAddr,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[allow(dead_code, reason = "only read")]
enum Traffic {
    Voice { period: strait_core::units::Time },
    Ping { count: u32 },
}

fn error(text: &str) -> String {
    parse::<File>("x.toml", text).map_or_else(|error| error.to_string(), |file| format!("{file:?}"))
}

fn table(text: &str) -> toml::Table {
    text.parse().unwrap()
}

#[test]
fn an_unknown_key_is_named_with_line_table_and_nearest_key() {
    assert_eq!(
        error("name = \"a\"\n\n[[port]]\nname = \"line\"\nbauds = 9600\n"),
        "x.toml:5: unknown key `bauds` in [[port]]; did you mean `baud`? \
         (valid keys: `name`, `baud`, `framing`, `neighbours`)"
    );
    assert_eq!(
        error("nmae = \"a\"\n"),
        "x.toml:1: unknown key `nmae` in the file's top level; did you mean `name`? \
         (valid keys: `name`, `host`, `port`, `traffic`)"
    );
    assert_eq!(
        error("name = \"a\"\nhost.colour = 1\n"),
        "x.toml:2: unknown key `colour` in [host] (valid keys: `mtu`)"
    );
    assert_eq!(
        error("name = \"a\"\n[[port]]\nname = \"l\"\nneighbours = [{ nam = \"b\" }]\n"),
        "x.toml:4: unknown key `nam` in [[port.neighbours]]; did you mean `name`? \
         (valid keys: `name`, `address`)"
    );
}

#[test]
fn an_error_has_its_parts() {
    let error = parse::<File>(
        "x.toml",
        "name = \"a\"\n[[port]]\nname = \"line\"\nbauds = 9600\n",
    );
    let error = error.unwrap_err();
    assert_eq!((error.line, error.column), (Some(4), Some(1)));
    assert_eq!(error.path, "port.line.bauds");
    assert_eq!(error.nearest.as_deref(), Some("baud"));
}

#[test]
fn a_missing_key_is_named_where_it_should_stand() {
    assert_eq!(
        error("[[port]]\nname = \"line\"\n"),
        "x.toml: missing key `name` in the file's top level"
    );
    assert_eq!(
        error("name = \"a\"\n[[port]]\nbaud = 1\n"),
        "x.toml:2: missing key `name` in [[port]]"
    );
    assert_eq!(
        error("name = \"a\"\n[host]\n"),
        "x.toml:2: missing key `mtu` in [host]"
    );
}

#[test]
fn a_wrong_value_is_named_by_its_key() {
    assert_eq!(
        error("name = \"a\"\n[host]\nmtu = 70000\n"),
        "x.toml:3: `mtu` in [host]: invalid value: integer `70000`, expected u16"
    );
    assert_eq!(
        error("name = \"a\"\n[[port]]\nname = \"l\"\nbaud = \"fast\"\n"),
        "x.toml:4: `baud` in [[port]]: invalid type: string \"fast\", expected u32"
    );
    assert_eq!(
        error("name = 5\n"),
        "x.toml:1: `name` in the file's top level: invalid type: integer `5`, expected a string"
    );
}

#[test]
fn types_chosen_by_a_key_keep_their_places() {
    let voice = "name = \"a\"\n[[traffic]]\nkind = \"voice\"\n";
    assert_eq!(
        error(&format!("{voice}period = \"50\"\n")),
        "x.toml:4: `period` in [[traffic]]: `50` is no time: write it like \"50 ms\""
    );
    assert_eq!(
        error(&format!("{voice}perio = \"50 ms\"\n")),
        "x.toml:4: unknown key `perio` in [[traffic]]; did you mean `period`? \
         (valid keys: `period`)"
    );
    assert_eq!(
        error("name = \"a\"\n[[traffic]]\nkind = \"pign\"\n"),
        "x.toml:3: `kind` in [[traffic]]: unknown word `pign`; did you mean `ping`? \
         (valid words: `voice`, `ping`)"
    );
    assert_eq!(
        error("name = \"a\"\n[[traffic]]\nkind = \"ping\"\n"),
        "x.toml:2: missing key `count` in [[traffic]]"
    );
}

#[test]
fn text_that_is_no_toml_has_its_line() {
    let first = error("name = \"a\"\nport = [\n");
    assert!(first.starts_with("x.toml:"), "{first}");
    let second = error("name = \"a\nb = 1\n");
    assert!(second.starts_with("x.toml:1: "), "{second}");
    let twice = error("name = \"a\"\nname = \"b\"\n");
    assert!(twice.starts_with("x.toml:2: "), "{twice}");
}

#[test]
fn a_merged_table_names_the_key_path() {
    let merged =
        table("name = \"a\"\n[[port]]\nname = \"net\"\n[[port]]\nname = \"line\"\nbauds = 1\n");
    let error = from_table::<File>("x.toml with variant fifo", &merged).unwrap_err();
    assert_eq!(
        error.to_string(),
        "x.toml with variant fifo: port.line.bauds: unknown key `bauds` in [[port]]; \
         did you mean `baud`? (valid keys: `name`, `baud`, `framing`, `neighbours`)"
    );
    assert!(from_table::<File>("x.toml", &table("name = \"a\"")).is_ok());
}

#[test]
fn semantic_errors_find_their_line() {
    let text = "name = \"a\"\n[[traffic]]\nfrom = \"x\"\n[[traffic]]\nfrom = \"hx\"\n";
    assert_eq!(
        unknown_name(
            "x.toml",
            text,
            "traffic.1.from",
            "host",
            "hx",
            &["ha", "hb"]
        )
        .to_string(),
        "x.toml:5: `from` in [[traffic]]: no host `hx`; did you mean `ha`? (hosts: `ha`, `hb`)"
    );
    assert_eq!(
        error_at("x.toml", text, "traffic.0.to", "is needed").to_string(),
        "x.toml:2: `to` in [[traffic]]: is needed"
    );
    assert_eq!(
        error_at("x.toml", text, "traffic.1", "is odd").to_string(),
        "x.toml:4: [[traffic]]: is odd"
    );
    assert_eq!(
        error_at("x.toml", "= broken", "a.b", "is odd").to_string(),
        "x.toml: is odd"
    );
}

#[test]
fn merge_goes_into_tables_and_named_elements_and_replaces_the_rest() {
    let mut base = table(
        "name = \"a\"\nlist = [1, 2]\n[policy]\npreset = \"default\"\nkeep = 1\n\
         [[port]]\nname = \"line\"\nbaud = 9600\n[[port]]\nname = \"net\"\nbaud = 1\n",
    );
    let overlay = table(
        "list = [3]\nnew = true\npolicy = { preset = \"fifo\" }\n\
         port = { line = { profile = \"plain\" }, lime = { baud = 1 } }\n",
    );
    assert_eq!(merge(&mut base, &overlay), ["port.lime"]);
    let expected = table(
        "name = \"a\"\nlist = [3]\nnew = true\n[policy]\npreset = \"fifo\"\nkeep = 1\n\
         [[port]]\nname = \"line\"\nbaud = 9600\nprofile = \"plain\"\n\
         [[port]]\nname = \"net\"\nbaud = 1\n",
    );
    assert_eq!(base, expected);
}

#[test]
fn merging_nothing_changes_nothing_and_merging_twice_is_merging_once() {
    let mut base = table("a = 1\n[t]\nb = 2\n");
    let before = base.clone();
    assert!(merge(&mut base, &toml::Table::new()).is_empty());
    assert_eq!(base, before);
    let overlay = table("a = 2\n[t]\nc = 3\n");
    let _ = merge(&mut base, &overlay);
    let once = base.clone();
    let _ = merge(&mut base, &overlay);
    assert_eq!(base, once);
}

#[test]
fn an_array_replaces_an_array_of_tables_whole() {
    let mut base = table("[[port]]\nname = \"line\"\n");
    let overlay = table("[[port]]\nname = \"net\"\n");
    assert!(merge(&mut base, &overlay).is_empty());
    assert_eq!(base, overlay);
}

#[test]
fn the_nearest_word_is_one_typing_error_away_or_none() {
    let words = ["baud", "framing", "rate", "delay"];
    for (typed, meant) in [
        ("bauds", Some("baud")),
        ("buad", Some("baud")),
        ("Rate", Some("rate")),
        ("framnig", Some("framing")),
        ("colour", None),
        ("", None),
    ] {
        assert_eq!(nearest(typed, &words), meant, "{typed}");
    }
}

#[test]
fn what_is_written_reads_back() {
    let base = table("a = \"x\\n\\\"\"\n[t]\nb = [1.5, 2.0]\n[[p]]\nname = \"é\"\n");
    let text = write("x.toml", &base).unwrap();
    assert_eq!(table(&text), base);
    let _: BTreeMap<String, Value> = parse("x.toml", &text).unwrap();
}

proptest::proptest! {
    #[test]
    fn any_text_gives_a_result(text in "[a-z\\[\\]{}=\".\n 0-9é]{0,80}") {
        let _ = parse::<File>("x.toml", &text);
        let _ = error_at("x.toml", &text, "a.0.b", "x");
    }
}
