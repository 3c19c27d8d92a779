//! Log messages for programs: lines of JSON on stderr, the journal of systemd with its fields, and
//! syslog.

use std::fmt::{Debug, Write as _};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::{Map, Value, json};
use strait_live::logs::Logs;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Who reads the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// For programs: one object a line, with `time` in seconds since 1970, `level`, `message` and
    /// `fields`.
    Json,
    /// The journal of systemd, with one field for each value.
    Journald,
    /// The host's syslog, by `/dev/log`.
    Syslog,
}

/// Where the journal listens.
const JOURNAL: &str = "/run/systemd/journal/socket";
/// Where syslog listens.
const SYSLOG: &str = "/dev/log";
/// Octets of a value: a datagram has to fit into the journal's socket.
const VALUE_MAX: usize = 4096;

impl Form {
    /// The journal if stderr leads there, as it does in a service of systemd.
    pub(crate) fn of_stderr() -> Self {
        let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
        let stderr = std::fs::metadata("/proc/self/fd/2");
        let is_its = stderr.is_ok_and(|it| named == format!("{}:{}", it.dev(), it.ino()));
        if is_its { Self::Journald } else { Self::Text }
    }

    /// What takes the messages.
    pub(crate) fn sink(self) -> io::Result<Box<dyn Write + Send>> {
        Ok(match self {
            Self::Text => Box::new(io::stderr()),
            Self::Json => Box::new(Whole(self, io::stderr())),
            Self::Journald => Box::new(Whole(self, Datagrams::to(JOURNAL.into())?)),
            Self::Syslog => Box::new(Whole(self, Datagrams::to(SYSLOG.into())?)),
        })
    }

    fn message(self, level: Level, fields: &Fields) -> Vec<u8> {
        match self {
            Self::Journald => journal_message(level, fields),
            Self::Syslog => syslog_message(level, fields),
            _ => (json_message(level, fields).to_string() + "\n").into_bytes(),
        }
    }

    /// What each message begins with, and no plain line.
    const fn beginning(self) -> &'static [u8] {
        match self {
            Self::Journald => b"PRIORITY=",
            Self::Syslog => b"<",
            _ => b"{\"",
        }
    }
}

/// Plain lines become messages as well.
struct Whole<W>(Form, W);

impl<W: Write> Write for Whole<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if text.starts_with(self.0.beginning()) {
            self.1.write_all(text)?;
        } else {
            let message = String::from_utf8_lossy(text).trim_end().to_owned();
            let fields = Fields {
                message,
                ..Fields::default()
            };
            self.1.write_all(&self.0.message(Level::INFO, &fields))?;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}

/// Each write is a datagram. Who listens at the path may be another one by then: the journal
/// begins anew without its clients.
struct Datagrams(UnixDatagram, PathBuf);

impl Datagrams {
    fn to(path: PathBuf) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(&path)?;
        Ok(Self(socket, path))
    }
}

impl Write for Datagrams {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let sent = self.0.send(octets).or_else(|_| {
            self.0.connect(&self.1)?;
            self.0.send(octets)
        });
        sent.map(|_| octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Tells what happens in such a form.
pub(crate) struct Events {
    pub(crate) form: Form,
    pub(crate) logs: Logs,
}

impl<S: Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let text = self.form.message(*event.metadata().level(), &fields);
        // A queue, of which somebody else writes.
        let _ = self.logs.clone().write_all(&text);
    }
}

#[derive(Debug, Default)]
struct Fields {
    message: String,
    values: Vec<(&'static str, Value)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.values.push((field.name(), value.into()));
    }

    /// The message with its values.
    fn text(&self) -> String {
        let mut text = self.message.clone();
        for (name, value) in &self.values {
            let _ = write!(text, " {name}={}", plain(value));
        }
        text
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(VALUE_MAX));
    text
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = cut(format!("{value:?}"));
        match field.name() {
            "message" => self.message = text,
            _ => self.put(field, text),
        }
    }
}

fn json_message(level: Level, fields: &Fields) -> Value {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let time = (now.unwrap_or_default().as_secs_f64() * 1e3).round() / 1e3;
    let values = fields.values.iter();
    let values: Map<_, _> = values
        .map(|(name, it)| ((*name).to_owned(), it.clone()))
        .collect();
    let (level, message) = (level.as_str(), &fields.message);
    json!({"time": time, "level": level, "message": message, "fields": values})
}

/// As syslog counts it (RFC 5424 section 6.2.1).
const fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// What `syslog(3)` sends, but for the time: who listens knows it. Daemons have the facility 3.
fn syslog_message(level: Level, fields: &Fields) -> Vec<u8> {
    let (priority, process) = (3 * 8 + severity(level), std::process::id());
    let text = fields.text().replace(|it: char| it.is_control(), " ");
    format!("<{priority}>strait[{process}]: {text}").into_bytes()
}

/// The journal's native protocol: a name, the octets of the value, and it.
fn journal_message(level: Level, fields: &Fields) -> Vec<u8> {
    let priority = severity(level);
    let mut message = format!("PRIORITY={priority}\nSYSLOG_IDENTIFIER=strait\n").into_bytes();
    let mut put = |name: &str, value: &str| {
        message.extend(name.as_bytes());
        message.push(b'\n');
        message.extend((value.len() as u64).to_le_bytes());
        message.extend(value.as_bytes());
        message.push(b'\n');
    };
    for (name, value) in &fields.values {
        let value = plain(value);
        let letters = name
            .chars()
            .map(|it| if it.is_ascii_alphanumeric() { it } else { '_' });
        let name: String = letters.map(|it| it.to_ascii_uppercase()).collect();
        put(&format!("STRAIT_{name}"), &value);
    }
    put("MESSAGE", &fields.text());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        Fields {
            message: "port up".into(),
            values: vec![("port", "li\nne".into()), ("r#type", 7.into())],
        }
    }

    #[test]
    fn a_message_is_an_object_and_a_plain_line_becomes_one() {
        let mut sink = Whole(Form::Json, Vec::new());
        sink.write_all(&Form::Json.message(Level::WARN, &fields()))
            .unwrap();
        sink.write_all(b"strait: a: up\n").unwrap();
        let text = String::from_utf8(sink.1).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|it| serde_json::from_str(it).unwrap())
            .collect();
        assert_eq!(lines[0]["level"], "WARN");
        assert_eq!(lines[0]["fields"]["port"], "li\nne");
        assert!(lines[0]["time"].as_f64() > Some(1e9));
        assert_eq!(lines[1]["message"], "strait: a: up");
        assert_eq!(lines[1]["level"], "INFO");
    }

    #[test]
    fn the_journal_gets_each_value_with_its_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let its = UnixDatagram::bind(&path).unwrap();
        let mut sink = Whole(Form::Journald, Datagrams::to(path.clone()).unwrap());
        sink.write_all(&Form::Journald.message(Level::WARN, &fields()))
            .unwrap();
        let mut octets = [0; 1000];
        let length = its.recv(&mut octets).unwrap();
        let expected = b"PRIORITY=4\nSYSLOG_IDENTIFIER=strait\nSTRAIT_PORT\n\x05\0\0\0\0\0\0\0li\nne\n\
            STRAIT_R_TYPE\n\x01\0\0\0\0\0\0\x007\nMESSAGE\n\x1b\0\0\0\0\0\0\0port up port=li\nne r#type=7\n";
        assert_eq!(&octets[..length], expected);
        // It begins anew.
        drop(its);
        std::fs::remove_file(&path).unwrap();
        assert!(sink.write_all(b"a: nobody hears\n").is_err());
        let its = UnixDatagram::bind(&path).unwrap();
        sink.write_all(b"a: up\n").unwrap();
        let length = its.recv(&mut octets).unwrap();
        let plain = String::from_utf8_lossy(&octets[..length]).into_owned();
        assert!(
            plain.ends_with("MESSAGE\n\x05\0\0\0\0\0\0\0a: up\n"),
            "{plain:?}"
        );
    }

    #[test]
    fn syslog_gets_one_line_with_its_priority() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let its = UnixDatagram::bind(&path).unwrap();
        let mut sink = Whole(Form::Syslog, Datagrams::to(path).unwrap());
        let mut hear = |text: &[u8]| {
            sink.write_all(text).unwrap();
            let mut octets = [0; 1000];
            let length = its.recv(&mut octets).unwrap();
            let text = String::from_utf8_lossy(&octets[..length]).into_owned();
            text.replace(&format!("[{}]", std::process::id()), "[7]")
        };
        let warned = hear(&Form::Syslog.message(Level::WARN, &fields()));
        assert_eq!(warned, "<28>strait[7]: port up port=li ne r#type=7");
        assert_eq!(hear(b"a: up\n"), "<30>strait[7]: a: up");
    }

    #[test]
    fn long_values_are_cut() {
        assert_eq!(cut("é".repeat(VALUE_MAX)).len(), VALUE_MAX);
    }
}
