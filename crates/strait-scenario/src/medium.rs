//! Media that any number of stations share.

use strait_channel::LinkConfig;
use strait_node::config_text::ConfigError;

use crate::link::named_or_here;
use crate::load::{Files, Source};
use crate::{Link, LinkEnd, MediumEntry, Scenario};

/// A path's place among those of a medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The medium, by its place in the scenario.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// The places of the path's ends among its stations.
    pub stations: [usize; 2],
}

impl MediumEntry {
    /// Stations of a medium. Each two of them have a path; more are no net on one channel.
    pub const STATIONS_MAX: usize = 32;

    /// A path for each two of its stations.
    fn paths(&self, index: usize, channel: &LinkConfig) -> Vec<Link> {
        let pairs = (0..self.stations.len()).flat_map(|b| (0..b).map(move |a| [a, b]));
        let path = |stations: [usize; 2]| {
            let ends = stations.map(|place| LinkEnd::parse(&self.stations[place]));
            let name = match self.stations.len() {
                2 => self.name.clone(),
                _ => format!("{}-{}-{}", self.name, ends[0].node, ends[1].node),
            };
            Link {
                name,
                ends,
                channel: channel.clone(),
                over: None,
                stations: None,
                medium: Some(Membership {
                    index,
                    name: self.name.clone(),
                    stations,
                }),
            }
        };
        pairs.map(path).collect()
    }
}

/// The paths of all media of a scenario.
pub(super) fn load(
    files: &dyn Files,
    source: &Source<'_>,
    scenario: &Scenario,
) -> Result<Vec<Link>, ConfigError> {
    let mut paths = Vec::new();
    for (index, entry) in scenario.media.iter().enumerate() {
        let place = format!("medium.{index}");
        let channel = named_or_here(files, source, &place, &entry.file, &entry.channel)?;
        let Some(channel) = channel else {
            let message = "a medium needs either `file` or [medium.channel]";
            return Err(source.error(&place, message));
        };
        let place = format!("{place}.stations");
        let most = match channel.kind.is_shared() {
            true => MediumEntry::STATIONS_MAX,
            false => 2,
        };
        if !(2..=most).contains(&entry.stations.len()) {
            let kind = channel.kind.name();
            let message = match most {
                2 => format!("a medium of kind `{kind}` has two ends"),
                _ => format!("a medium has 2 to {most} stations"),
            };
            return Err(source.error(&place, &message));
        }
        paths.extend(entry.paths(index, &channel));
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::topology::{End, Topology};
    use crate::{DiskFiles, Loaded, Scenario};

    const CHANNEL: &str = "channel = { kind = \"hf\", rate = \"9600 bit/s\", hf = {} }";

    /// Stations on one medium, of which only `a` names one of the others.
    fn load(stations: &str, channel: &str, more: &str) -> Result<Loaded, String> {
        load_named("m", stations, channel, more)
    }

    fn load_named(
        medium: &str,
        stations: &str,
        channel: &str,
        more: &str,
    ) -> Result<Loaded, String> {
        let node = |name: &str, number: usize, kind: &str| {
            format!(
                "[[node]]\nname = \"{name}\"\nconfig = {{ name = \"{name}\", host = {{}}, port = \
                 [{{ name = \"p\", {kind}, hf = {{ address = \"0.0.0.{number}\" }} }}] }}\n"
            )
        };
        let knows = |name: &str| {
            format!("kind = \"hf\", neighbours = [{{ name = \"{name}\", hf = \"0.0.0.9\" }}]")
        };
        let text = [
            "name = \"net\"\nabout = \"Net.\"\nduration = \"1 s\"\n".to_owned(),
            node("a", 1, &knows("c")),
            node("b", 2, &knows("elsewhere")),
            node("c", 3, &knows("elsewhere")),
            format!("[[medium]]\nname = \"{medium}\"\nstations = [{stations}]\n{channel}\n{more}"),
        ];
        let loaded = Scenario::load_text(&DiskFiles, Path::new("x.toml"), &text.concat());
        loaded.map_err(|error| error.to_string())
    }

    const ALL: &str = "\"a.p\", \"b.p\", \"c.p\"";

    #[test]
    fn each_two_stations_of_a_medium_have_a_path() {
        let loaded = load(ALL, CHANNEL, "").unwrap();
        let names: Vec<_> = loaded.links.iter().map(|link| &*link.name).collect();
        assert_eq!(names, ["m-a-b", "m-a-c", "m-b-c"]);
        let topology = Topology::new(&loaded);
        let numbers = topology
            .links
            .iter()
            .map(|link| link.ends.map(|end| end.neighbour));
        let numbers: Vec<_> = numbers.collect();
        let [a, b, c] = [0, 1, 2].map(|place| Some(End::STRANGERS + place));
        // One neighbour needs no number.
        assert_eq!(numbers, [[b, a], [None, a], [c, b]]);
        let two = load("\"b.p\", \"c.p\"", CHANNEL, "").unwrap();
        assert_eq!(two.links[0].name, "m");
    }

    #[test]
    fn its_resolved_text_means_the_same() {
        let loaded = load(ALL, CHANNEL, "").unwrap();
        let text = loaded.resolved_text();
        let again = Scenario::load_text(&DiskFiles, Path::new("y.toml"), &text).unwrap();
        assert_eq!(again.links, loaded.links);
        let key = vec![("medium.m.rate".to_owned(), "4800 bit/s".into())];
        let slow = loaded.at(&key).unwrap();
        assert!(
            slow.links
                .iter()
                .all(|link| link.channel.rate.is_some_and(|it| it.0 == 4800))
        );
    }

    #[test]
    fn wrong_media_say_what_would_be_right() {
        let link = format!("[[link]]\nname = \"l\"\nbetween = [\"a.p\", \"c.p\"]\n{CHANNEL}\n");
        let same = format!("[[medium]]\nname = \"m\"\nstations = [{ALL}]\n{CHANNEL}\n");
        let frames = "channel = { kind = \"frames\", rate = \"9600 bit/s\" }";
        let twice = "\"a.p\", \"b.p\", \"a.p\"";
        let many = ["\"a.p\""; 33].join(", ");
        for (stations, channel, more, why) in [
            ("\"a.p\"", CHANNEL, "", "2 to 32 stations"),
            (&many, CHANNEL, "", "2 to 32 stations"),
            (ALL, frames, "", "kind `frames` has two ends"),
            ("\"a.p\", \"b.p\"", frames, "", "the link of kind `frames`"),
            (ALL, "", "", "either `file` or [medium.channel]"),
            (twice, CHANNEL, "", "lead to another node"),
            ("\"a.p\", \"x.p\"", CHANNEL, "", "no node `x`"),
            ("\"a.p\", \"b.q\"", CHANNEL, "", "did you mean `p`"),
            (ALL, CHANNEL, &link, "a medium allows no other"),
            (ALL, CHANNEL, &same, "allows no other"),
        ] {
            let error = load(stations, channel, more).expect_err(why);
            assert!(error.contains(why), "{why}: {error}");
        }
        let error = load_named("m!", ALL, CHANNEL, "").expect_err("a name");
        assert!(error.contains("`m!` is no name"), "{error}");
    }
}
