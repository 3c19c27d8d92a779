use std::path::{Path, PathBuf};

use strait_traffic::{ScriptSource, Traffic};

use super::*;

/// A scenario with one script, and the script.
struct Both<'a> {
    traffic: &'a str,
    script: &'a str,
}

const SCENARIO: &str = r#"name = "flows"
duration = "9 s"
[[host]]
name = "ha"
addresses = ["10.1.0.2/24", "fd00:1::2/64"]
[[host]]
name = "hb"
addresses = ["10.1.0.3/24"]
[[link]]
between = ["ha", "hb"]
channel = { kind = "frames", rate = "1 Mbit/s" }
[[traffic]]
name = "all"
kind = "mgen"
from = "ha"
to = "hb"
"#;

impl Files for Both<'_> {
    fn read(&self, path: &Path) -> Result<String, String> {
        match path.to_str() {
            Some("dir/flows.toml") => Ok(format!("{SCENARIO}{}", self.traffic)),
            Some("dir/mgen/x.mgn") => Ok(self.script.into()),
            _ => Err("can't be read: no such file".into()),
        }
    }

    fn read_octets(&self, path: &Path) -> Result<Vec<u8>, String> {
        assert_eq!(path, PathBuf::from("dir/mgen/a.pcap"));
        let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        bytes.resize(24, 0);
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 142, 0, 0, 0]);
        Ok(bytes)
    }
}

const FILE: &str = "script = \"mgen/x.mgn\"\n";

fn load(traffic: &str, script: &str) -> Result<Loaded, String> {
    let files = Both { traffic, script };
    Scenario::load_from(&files, Path::new("dir/flows.toml")).map_err(|error| error.to_string())
}

#[test]
fn script_and_captures_become_part_of_the_scenario() {
    let script = "0 ON 7 UDP DST 10.1.0.3/5 CLONE [tcpdump a.pcap]\n";
    let expect = "[[expect]]\nid = \"x\"\nmetric = \"all.7.loss\"\nmax = 0.0\n";
    let loaded = load(&format!("{FILE}{expect}"), script).unwrap();
    let traffic = &loaded.scenario.traffic[0];
    let Some(ScriptSource::Whole(whole)) = &traffic.script else {
        panic!("it is still in its file");
    };
    assert_eq!(whole.text, script);
    assert_eq!(whole.captures["a.pcap"], [(0, 100)]);
    let Traffic::Mgen(mgen) = &traffic.what else {
        panic!("no script");
    };
    assert_eq!(mgen.captures["a.pcap"].len(), 1);
    // The resolved scenario is one, and needs no file any more.
    let resolved = loaded.resolved_text();
    let again = Scenario::load_text(
        &Both {
            traffic: "",
            script: "",
        },
        Path::new("r"),
        &resolved,
    );
    assert_eq!(again.unwrap().scenario.traffic, loaded.scenario.traffic);
}

#[test]
fn errors_name_the_script_or_the_key() {
    let on = |rest: &str| format!("0 ON 1 UDP DST {rest}\n");
    let fine = on("10.1.0.3/5 PER [1 100]");
    let cases = [
        (
            FILE,
            on("10.1.0.3/5 PER [1 9]"),
            "dir/mgen/x.mgn:1: column 34: `9` is not a size",
        ),
        (
            FILE,
            on("10.1.0.9/5 PER [1 99]"),
            "which is no address of `hb` (it has 10.1.0.3)",
        ),
        (
            FILE,
            on("10.1.0.3/5 PER [1 1453]"),
            "at most 1452 octets over UDP",
        ),
        (
            FILE,
            "0 JOIN 224.1.1.1".into(),
            "line 1: a scenario has no multicast",
        ),
        (
            FILE,
            "0 ON 1 SINK DST 10.1.0.3/5 PER [1 99]".into(),
            "has no SINK",
        ),
        (
            "script = \"y.mgn\"\n",
            fine.clone(),
            "dir/y.mgn can't be read",
        ),
        (
            "",
            fine.clone(),
            "`script` in [[traffic]]: needed with kind = \"mgen\"",
        ),
        (
            "script = \"mgen/x.mgn\"\nrate = \"1 bit/s\"\n",
            fine.clone(),
            "`rate` in [[traffic]]: is for kind = \"udp\"",
        ),
    ];
    for (traffic, script, expected) in cases {
        let told = load(traffic, &script).unwrap_err();
        assert!(told.contains(expected), "{told}\n{expected}");
    }
    assert!(load(FILE, &fine).is_ok());
}
