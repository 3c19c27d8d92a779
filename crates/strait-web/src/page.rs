//! The page as files, and as one file.

use std::sync::LazyLock;

use serde_json::{Value, json};
use strait_report::{Parts, Report, STYLE as REPORT_CSS, uplot};
use strait_status::{
    Access, Class, Clients, Described, Dns, Echo, Far, Hop, Led, Link, Local, Mail, Neighbour,
    Olsr, Packets, Port, PortFlows, Proxy, Rate, Repairs, Station, Streams, Tap, Urgent,
};

use crate::recording::{Clock, Recording};

const SHELL: &str = include_str!("../assets/index.html");
const CSS: &str = include_str!("../assets/page.css");
/// Modules, each before those that name it.
const MODULES: [(&str, &str); 7] = [
    ("format.js", include_str!("../assets/format.js")),
    ("charts.js", include_str!("../assets/charts.js")),
    ("table.js", include_str!("../assets/table.js")),
    ("store.js", include_str!("../assets/store.js")),
    ("map.js", include_str!("../assets/map.js")),
    ("views.js", include_str!("../assets/views.js")),
    ("main.js", include_str!("../assets/main.js")),
];

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Nothing may be loaded, sent or framed; only what stands in the page runs.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
                      script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// All modules as one script.
static PROGRAM: LazyLock<String> =
    LazyLock::new(|| MODULES.iter().map(|(_, text)| joined(text)).collect());

/// The page's files beside the page itself: path, type and text.
pub(crate) fn files() -> [(&'static str, &'static str, &'static str); 4] {
    [
        ("/page.js", SCRIPT, PROGRAM.as_str()),
        ("/page.css", STYLE, CSS),
        ("/uplot.css", STYLE, uplot::CSS),
        ("/uplot.js", SCRIPT, uplot::JS),
    ]
}

/// The page as a server gives it, with its files beside it.
pub(crate) fn served() -> String {
    let head = "<link rel=\"stylesheet\" href=\"uplot.css\">\n\
                <link rel=\"stylesheet\" href=\"page.css\">";
    let foot =
        "<script src=\"uplot.js\"></script>\n<script type=\"module\" src=\"page.js\"></script>";
    shell(head, "", &(data("described", &described()) + foot))
}

/// The page as one file that needs nothing else, with `recording` inside.
pub fn one_file(recording: &Recording) -> String {
    whole(recording, None)
}

/// The same with a report: its results are the first view.
pub fn with_results(recording: &Recording, report: &Report) -> String {
    whole(recording, Some(report.parts()))
}

/// A report of what has no gateways.
pub fn results(report: &Report) -> String {
    with_results(&Recording::new(Clock::Run), report)
}

fn whole(recording: &Recording, results: Option<Parts>) -> String {
    // What a report's style says of its page is for no place in this one.
    let style = results
        .as_ref()
        .map(|_| format!("#results {{\n{REPORT_CSS}}}\n"));
    let Parts { main, scripts } = results.unwrap_or_default();
    let head = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <style>{}\n{CSS}{}</style>",
        uplot::CSS,
        style.unwrap_or_default()
    );
    let foot = format!(
        "{}<script type=\"text/plain\" id=\"recording\">{}</script>\n\
         <!-- uPlot, its licence:\n{}-->\n<script>{}</script>\n{scripts}<script type=\"module\">\n{}\
         </script>",
        data("described", &described()),
        inert(&recording.text()),
        uplot::LICENCE,
        uplot::JS,
        *PROGRAM
    );
    shell(&head, &main, &foot)
}

fn shell(head: &str, results: &str, foot: &str) -> String {
    // From the end: what is put in may hold anything.
    let page = SHELL.replacen("<!-- foot -->", foot, 1);
    let page = page.replacen("<!-- results -->", results, 1);
    page.replacen("<!-- head -->", head, 1)
}

/// A module as a part of one script: what it exports stands there for all.
fn joined(module: &str) -> String {
    let lines = module.lines().filter(|line| !line.starts_with("import "));
    let lines = lines.map(|line| line.strip_prefix("export ").unwrap_or(line));
    // What is declared in another module is exported by its name here.
    let lines = lines.filter(|line| !line.starts_with("{ "));
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn data(id: &str, value: &Value) -> String {
    let json = inert(&value.to_string());
    format!("<script type=\"application/json\" id=\"{id}\">{json}</script>\n")
}

/// JSON that can stand in a script element: `<` occurs only inside its strings, where it has
/// another spelling.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Each described counter, by the type that has it.
fn described() -> Value {
    fn of<T: Described>() -> Value {
        let each = T::COUNTERS.iter();
        each.map(|it| json!({"name": it.name, "help": it.help.trim(), "unit": it.shape.unit}))
            .collect()
    }
    json!({
        "Access": of::<Access>(), "Class": of::<Class>(), "Clients": of::<Clients>(),
        "Dns": of::<Dns>(), "Echo": of::<Echo>(), "Far": of::<Far>(), "Hop": of::<Hop>(), "Led": of::<Led>(),
        "Link": of::<Link>(), "Local": of::<Local>(), "Mail": of::<Mail>(),
        "Neighbour": of::<Neighbour>(), "Olsr": of::<Olsr>(), "Packets": of::<Packets>(),
        "Port": of::<Port>(), "PortFlows": of::<PortFlows>(), "Proxy": of::<Proxy>(),
        "Rate": of::<Rate>(), "Repairs": of::<Repairs>(), "Station": of::<Station>(),
        "Streams": of::<Streams>(), "Tap": of::<Tap>(), "Urgent": of::<Urgent>(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use strait_status::Snapshot;

    use super::*;

    fn file(name: &str) -> String {
        let mut recording = Recording::new(Clock::Run);
        let snapshot = Snapshot {
            node: name.into(),
            ..Snapshot::default()
        };
        recording.add(0, 0.0, &snapshot);
        one_file(&recording)
    }

    #[test]
    fn hostile_names_stay_text() {
        let html = file("</script><script>alert(1)</script><!--");
        let plain = file("plain");
        for part in ["<script", "</script", "<!--"] {
            let counts = [&html, &plain].map(|text| text.matches(part).count());
            assert_eq!(counts[0], counts[1], "{part}");
        }
    }

    #[test]
    fn one_file_names_no_other_file() {
        let html = file("plain");
        for reference in [
            "src=\"",
            "<link",
            "@import",
            "url(",
            "\nimport ",
            "\nexport ",
        ] {
            assert!(!html.contains(reference), "{reference}");
        }
        assert!(html.contains("default-src 'none'"));
        assert!(html.len() < 150_000, "{}", html.len());
    }

    /// Joined into one script, modules share their names.
    #[test]
    fn no_two_modules_declare_the_same_name() {
        let mut names = BTreeSet::new();
        for (path, text) in MODULES {
            for line in joined(text).lines() {
                let mut words = line.split([' ', '(', ';', '=']);
                if let Some("const" | "let" | "class" | "function") = words.next()
                    && let Some(name) = words.next()
                {
                    assert!(
                        names.insert(name.to_owned()),
                        "{path}: {name} is there twice"
                    );
                }
            }
        }
    }

    #[test]
    fn modules_stand_behind_those_that_they_name() {
        for (place, (path, text)) in MODULES.iter().enumerate() {
            for line in text.lines().filter(|line| line.starts_with("import ")) {
                let named = line
                    .split("\"./")
                    .nth(1)
                    .and_then(|rest| rest.split('"').next());
                let named = named.expect("a module beside it");
                let known = MODULES.iter().position(|(path, _)| *path == named);
                assert!(known.is_some_and(|known| known < place), "{path}: {line}");
            }
        }
    }
}
