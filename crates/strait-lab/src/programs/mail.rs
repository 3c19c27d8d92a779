//! A message brought to a gateway's switch by Python's smtplib, and found in a Maildir: of the
//! gateway, or of a server of mailboxes on a host.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::UNIX_EPOCH;

use strait_core::time::Duration;
use strait_scenario::{MailServer, Post};
use strait_traffic::{FlowLog, Side, Traffic, Transfer, mail_text, mail_wrong, report};

use super::web::stop;
use super::{Collected, Flow, Origin, Program};
use crate::ground::net::is_bound;
use crate::ground::process::Running;
use crate::{LabError, Stage};

/// What brings the message.
const MAILER: &str = include_str!("mail.py");
/// Who keeps a host's mailboxes.
const SERVER: &str = include_str!("mail_server.py");
/// Long enough for a process to start.
const LEAD: Duration = Duration::from_millis(500);

/// The client at the host, and what is to lie in the mailbox.
#[derive(Debug)]
pub(crate) struct Mail {
    post: Post,
    priority: String,
    text: Vec<u8>,
    client: Option<Running>,
    /// The host's server, if this is the traffic that has started it.
    server: Option<Running>,
}

impl Mail {
    pub(crate) fn new(flow: &Flow, post: Post, seed: u64) -> Result<Self, LabError> {
        let Traffic::Mail {
            octets, priority, ..
        } = flow.traffic
        else {
            return Err(flow.wrong("it is no mail"));
        };
        Ok(Self {
            post,
            priority: priority.map_or_else(|| "-".into(), |it| it.to_string()),
            text: mail_text(&flow.config, seed, octets),
            client: None,
            server: None,
        })
    }

    /// The folder where the recipient's mail lies.
    fn mailbox(&self, stage: &Stage<'_>, flow: &Flow) -> PathBuf {
        let maildir = stage.scratch.file(&maildir(&flow.config.to));
        let recipient = self.post.recipient.to_lowercase();
        let name = match self.post.server {
            Some(_) => recipient.split('@').next().unwrap_or_default(),
            None => &recipient,
        };
        maildir.join(name).join("new")
    }

    /// Starts the host's server.
    fn serve(
        &self,
        stage: &Stage<'_>,
        flow: &Flow,
        server: &MailServer,
    ) -> Result<Running, LabError> {
        let mut command = Command::new("python3");
        let address = server.address;
        command.args(["-c", SERVER]);
        command.args([address.ip().to_string(), address.port().to_string()]);
        command.arg(if server.lmtp { "lmtp" } else { "smtp" });
        command.arg(stage.scratch.file(&maildir(&flow.config.to)));
        for (name, pause) in &server.boxes {
            command.args([name, &pause.as_nanos().to_string()]);
        }
        stage.start(
            flow.host(stage, 1),
            &format!("{}-mail", flow.config.to),
            command,
        )
    }

    /// The message as it lies there: when it came, by the calendar, and how many of its octets are
    /// wrong.
    fn arrival(&self, stage: &Stage<'_>, flow: &Flow) -> Option<(u64, u64)> {
        let files = fs::read_dir(self.mailbox(stage, flow)).ok()?;
        files.flatten().find_map(|file| {
            let octets = fs::read(file.path()).ok()?;
            let wrong = mail_wrong(&flow.config, &self.text, &octets)?;
            let written = file.metadata().ok()?.modified().ok()?;
            let wall_ns = written.duration_since(UNIX_EPOCH).ok()?.as_nanos();
            Some((u64::try_from(wall_ns).ok()?, wrong))
        })
    }
}

/// The folder of a gateway's Maildirs.
pub(crate) fn maildir(node: &str) -> String {
    format!("{node}.mail")
}

impl Program for Mail {
    fn prepare(&mut self, stage: &Stage<'_>, flow: &Flow) -> Result<(), LabError> {
        let Some(server) = &self.post.server else {
            return Ok(());
        };
        // One has all mailboxes, whichever traffic starts it: the first.
        let first = server.boxes.first().map(|(name, _)| name);
        if first == Some(&flow.config.name.to_lowercase()) {
            self.server = Some(self.serve(stage, flow, server)?);
        }
        Ok(())
    }

    fn is_prepared(&self, stage: &Stage<'_>, flow: &Flow) -> Result<bool, LabError> {
        let Some(running) = &self.server else {
            return Ok(true);
        };
        running.expect_alive()?;
        let server = self.post.server.as_ref();
        let port = server.map_or(0, |it| it.address.port());
        is_bound(flow.host(stage, 1), true, port).map_err(Into::into)
    }

    fn lead(&self) -> Duration {
        LEAD
    }

    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Result<(), LabError> {
        let file = format!("{}.message", flow.config.name);
        let file = stage.scratch.write(&file, &self.text)?;
        let switch = self.post.switch;
        let mut command = Command::new("python3");
        command.args(["-c", MAILER]);
        command.args([switch.ip().to_string(), switch.port().to_string()]);
        command.args([&self.post.sender, &self.post.recipient, &self.priority]);
        command.arg(file);
        command.arg(if flow.config.is_binary_mail() {
            "binary"
        } else {
            "text"
        });
        command.arg((origin.at + flow.start).as_nanos().to_string());
        self.client = Some(stage.start(flow.host(stage, 0), &flow.config.name, command)?);
        Ok(())
    }

    fn client(&self) -> Option<&Running> {
        self.client.as_ref()
    }

    /// It has been brought, and lies in its mailbox.
    fn is_over(&self, stage: &Stage<'_>, flow: &Flow) -> bool {
        let brought = self.client().and_then(Running::ended).is_some();
        brought && self.arrival(stage, flow).is_some()
    }

    fn finish(&mut self) {
        stop(self.client.as_ref());
        stop(self.server.as_ref());
    }

    fn collect(&self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Collected {
        let output = self
            .client
            .as_ref()
            .map(Running::output)
            .unwrap_or_default();
        let at = |word| time_of(&output, word, origin.at.as_nanos());
        let near = Transfer {
            started_ns: at("begun"),
            connected_ns: at("connected"),
            finished_ns: at("taken"),
            ..Transfer::default()
        };
        let arrival = self.arrival(stage, flow);
        let far = Transfer {
            finished_ns: arrival.map(|(wall_ns, _)| origin.of_wall(wall_ns)),
            wrong_octets: arrival.map_or(0, |(_, wrong)| wrong),
            ..Transfer::default()
        };
        let note = arrival.is_none().then(|| {
            let why = flow.complaints(self.client.as_ref());
            why.unwrap_or_else(|| format!("{}: it isn't in its mailbox", flow.config.name))
        });
        let log = |side, transfer| FlowLog {
            transfer: Some(transfer),
            ..FlowLog::new(&flow.config.name, side)
        };
        Collected {
            reports: vec![report(
                &flow.config,
                &log(Side::From, near),
                &log(Side::To, far),
            )],
            answers: Vec::new(),
            notes: note.into_iter().collect(),
        }
    }
}

/// When something was, in nanoseconds of the run.
fn time_of(output: &str, word: &str, origin_ns: u64) -> Option<u64> {
    let mut lines = output.lines();
    let at_ns = lines.find_map(|line| line.strip_prefix(word)?.strip_prefix(' ')?.parse().ok());
    at_ns.map(|at_ns: u64| at_ns.saturating_sub(origin_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_message_are_read() {
        let output = "begun 105\nconnected 107\nwarning\ntaken 1";
        assert_eq!(time_of(output, "begun", 100), Some(5));
        assert_eq!(time_of(output, "connected", 100), Some(7));
        assert_eq!(time_of(output, "taken", 0), Some(1));
        assert_eq!(time_of("", "taken", 0), None);
    }
}
