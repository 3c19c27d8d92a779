//! Commands of SMTP (RFC 5321 section 4.1), with the parameters of SIZE (RFC 1870), 8BITMIME (RFC
//! 6152), DSN (RFC 3461), DELIVERBY (RFC 2852), CHUNKING and BINARYMIME (RFC 3030) and MT-PRIORITY
//! (RFC 6710). Between switches of ours there are XRESUME, how much of a message has come already,
//! and XBDAT, a piece in fewer octets.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use strait_core::work::{Sasl, Secret};

use crate::precedence::parse_wire;

/// Octets of an address (RFC 5321 section 4.5.3.1.3, without its brackets).
pub const ADDRESS_OCTETS_MAX: usize = 254;
/// Characters of ENVID, and of ORCPT (RFC 3461 sections 4.4 and 4.2).
const ENVID_MAX: usize = 100;
const ORCPT_MAX: usize = 500;

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// EHLO, or HELO if not `extended`.
    Hello {
        /// Who it says it is.
        name: String,
        /// Whether it knows of extensions.
        extended: bool,
    },
    /// MAIL.
    Mail(MailFrom),
    /// RCPT.
    Rcpt(RcptTo),
    /// DATA.
    Data,
    /// BDAT.
    Bdat {
        /// Octets behind the command.
        octets: u64,
        /// The last of the message.
        last: bool,
        /// They are a packed piece (XBDAT).
        packed: bool,
    },
    /// XRESUME: how much of this message is there.
    Resume(u64),
    /// STARTTLS.
    StartTls,
    /// AUTH: by which mechanism, and what it begins with.
    Auth(Sasl, Option<Secret>),
    /// RSET.
    Rset,
    /// NOOP.
    Noop,
    /// VRFY.
    Vrfy,
    /// ETRN: what waits for a name is to be sent.
    Turn(String),
    /// HELP.
    Help,
    /// QUIT.
    Quit,
}

impl Command {
    /// Whether no message comes nearer by it.
    pub const fn is_idle(&self) -> bool {
        matches!(
            self,
            Self::Noop
                | Self::Rset
                | Self::Vrfy
                | Self::Help
                | Self::Hello { .. }
                | Self::Resume(_)
                | Self::Turn(_)
        )
    }
}

/// By when a message is to be there (RFC 2852).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliverBy {
    /// Seconds that are left; below 0 it is late.
    pub seconds: i64,
    /// It returns if it is late. Otherwise its sender is told, and it goes on.
    pub returns: bool,
    /// Each switch tells the sender that it went on.
    pub traced: bool,
}

impl DeliverBy {
    /// The parameter's value, `120;R`.
    pub fn parse(value: &str) -> Option<Self> {
        let (time, mode) = value.split_once(';')?;
        let (sign, digits) = match time.as_bytes().first()? {
            b'-' => (-1, &time[1..]),
            b'+' => (1, &time[1..]),
            _ => (1, time),
        };
        let seconds = number(digits).filter(|_| digits.len() <= 9)?;
        let (returns, traced) = match mode.to_ascii_uppercase().as_str() {
            "R" => (true, false),
            "RT" => (true, true),
            "N" => (false, false),
            "NT" => (false, true),
            _ => return None,
        };
        let by = Self {
            seconds: sign * seconds as i64,
            returns,
            traced,
        };
        (by.seconds > 0 || !returns).then_some(by)
    }

    /// As a value.
    pub fn text(self) -> String {
        let mode = if self.returns { "R" } else { "N" };
        let trace = if self.traced { "T" } else { "" };
        let seconds = self.seconds.clamp(-Self::SECONDS_MAX, Self::SECONDS_MAX);
        alloc::format!("{seconds};{mode}{trace}")
    }

    const SECONDS_MAX: i64 = 999_999_999;

    /// The same when so many seconds have gone.
    pub fn later(self, seconds: u64) -> Self {
        let gone = i64::try_from(seconds).unwrap_or(i64::MAX);
        Self {
            seconds: self.seconds.saturating_sub(gone),
            ..self
        }
    }
}

/// MAIL and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MailFrom {
    /// The return path; empty for a report.
    pub sender: String,
    /// How long the client says the message is.
    pub octets: Option<u64>,
    /// What its octets may be.
    pub body: Body,
    /// The value of MT-PRIORITY. None is something else than 0.
    pub priority: Option<i8>,
    /// Reports have the headers alone (RET=HDRS), or all (RET=FULL).
    pub headers_only: Option<bool>,
    /// The client's name for the message, as xtext.
    pub envid: Option<String>,
    /// By when it is to be there.
    pub by: Option<DeliverBy>,
    /// XRESUME: what another switch of ours calls the message, and the octets of it that came
    /// before.
    pub resume: Option<(u64, u64)>,
}

/// What octets of a message may be (BODY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Body {
    /// Lines of octets up to 127.
    #[default]
    SevenBit,
    /// Lines of any octets.
    EightBit,
    /// Behind the header, anything.
    Binary,
}

impl Body {
    /// The word of the parameter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SevenBit => "7BIT",
            Self::EightBit => "8BITMIME",
            Self::Binary => "BINARYMIME",
        }
    }

    /// By its word.
    pub fn named(word: &str) -> Option<Self> {
        let mut all = [Self::SevenBit, Self::EightBit, Self::Binary].into_iter();
        all.find(|it| it.name().eq_ignore_ascii_case(word))
    }
}

/// RCPT and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RcptTo {
    /// The address.
    pub address: String,
    /// When the sender is told.
    pub notify: Notify,
    /// The address as it was at first, as xtext.
    pub orcpt: Option<String>,
}

/// When the sender of a message is told what became of it (NOTIFY of RFC 3461).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notify(u8);

impl Notify {
    /// It didn't say.
    pub const UNSAID: Self = Self(0);
    /// Nothing is told.
    pub const NEVER_TOLD: Self = Self(Self::NEVER);
    const NEVER: u8 = 1;
    const WORDS: [(&'static str, u8); 4] = [
        ("NEVER", Self::NEVER),
        ("SUCCESS", 2),
        ("FAILURE", 4),
        ("DELAY", 8),
    ];

    /// By its words, with commas between.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bits = 0;
        for word in text.split(',') {
            let mut words = Self::WORDS.iter();
            let (_, bit) = words.find(|(known, _)| known.eq_ignore_ascii_case(word))?;
            bits |= bit;
        }
        (bits & Self::NEVER == 0 || bits == Self::NEVER).then_some(Self(bits))
    }

    /// As words; nothing if it wasn't said.
    pub fn text(self) -> String {
        let words = Self::WORDS.iter().filter(|(_, bit)| self.0 & bit != 0);
        let words: Vec<&str> = words.map(|(word, _)| *word).collect();
        words.join(",")
    }

    /// Whether a failure is told; it is unless something else was said.
    pub const fn failure(self) -> bool {
        self.0 == 0 || self.0 & 4 != 0
    }

    /// Whether a delay is told; it is unless something else was said.
    pub const fn delay(self) -> bool {
        self.0 == 0 || self.0 & 8 != 0
    }

    /// Whether nothing is told.
    pub const fn never(self) -> bool {
        self.0 & Self::NEVER != 0
    }

    /// Whether a delivery is told.
    pub const fn success(self) -> bool {
        self.0 & 2 != 0
    }
}

/// Why a line is no command: the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(pub &'static str);

const UNKNOWN: Fault = Fault("500 5.5.1 unknown command");
/// The same for what this listener doesn't offer.
pub(crate) const NOT_HERE: Fault = Fault("502 5.5.1 not implemented here");
const SYNTAX: Fault = Fault("501 5.5.2 syntax error");
const PARAMETER: Fault = Fault("501 5.5.4 wrong parameter");
const TWICE: Fault = Fault("501 5.5.4 a parameter is repeated");
const NOT_OFFERED: Fault = Fault("555 5.5.4 a parameter isn't offered here");
const SENDER: Fault = Fault("501 5.1.7 no address of a sender");
const RECIPIENT: Fault = Fault("501 5.1.3 no address of a recipient");
const MECHANISM: Fault = Fault("504 5.5.4 AUTH needs PLAIN or LOGIN");
/// RFC 6710 section 4.1 point 1.
const PRIORITY: Fault = Fault("501 5.5.2 MT-PRIORITY is one value from -9 to 9");

/// Reads a line without its end.
///
/// # Errors
/// What the client hears.
pub fn parse(line: &[u8]) -> Result<Command, Fault> {
    // What is secret isn't looked at.
    let (line, secret) = line.split_at(secret_of(line).unwrap_or(line.len()));
    let line = core::str::from_utf8(line).map_err(|_| SYNTAX)?;
    if line.bytes().any(|it| it.is_ascii_control()) {
        return Err(SYNTAX);
    }
    let line = line.trim_end_matches(' ');
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let none = |command| rest.is_empty().then_some(command).ok_or(PARAMETER);
    match verb.to_ascii_uppercase().as_str() {
        "EHLO" => hello(rest, true),
        "HELO" => hello(rest, false),
        "MAIL" => mail(after(rest, "FROM:").ok_or(SYNTAX)?),
        "RCPT" => rcpt(after(rest, "TO:").ok_or(SYNTAX)?),
        "DATA" => none(Command::Data),
        "BDAT" => bdat(rest, false),
        "XBDAT" => bdat(rest, true),
        "XRESUME" => hex(rest).map(Command::Resume).ok_or(PARAMETER),
        "RSET" => none(Command::Rset),
        "QUIT" => none(Command::Quit),
        "NOOP" => Ok(Command::Noop),
        "VRFY" => Ok(Command::Vrfy),
        "HELP" => Ok(Command::Help),
        "STARTTLS" => none(Command::StartTls),
        "AUTH" => auth(line, secret),
        "ETRN" => turn(rest).map(Command::Turn).ok_or(SYNTAX),
        "EXPN" | "TURN" => Err(NOT_HERE),
        _ => Err(UNKNOWN),
    }
}

fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(word.len())?;
    head.eq_ignore_ascii_case(word).then_some(rest)
}

fn hello(name: &str, extended: bool) -> Result<Command, Fault> {
    let name = name.split(' ').next().unwrap_or_default();
    let right = !name.is_empty() && name.len() <= 255 && name.bytes().all(|it| is_word(it, b'='));
    let command = Command::Hello {
        name: name.to_string(),
        extended,
    };
    right.then_some(command).ok_or(PARAMETER)
}

/// Printable, and none of those that would end a trace field's clause, nor `but`.
const fn is_word(octet: u8, but: u8) -> bool {
    octet.is_ascii_graphic() && !matches!(octet, b'(' | b')' | b'<' | b'>' | b';') && octet != but
}

/// Where in a line the secret of AUTH begins, if there may be one: what a client says of who it is,
/// be it as wrong as it likes.
pub(crate) fn secret_of(line: &[u8]) -> Option<usize> {
    let rest = line.get(5..)?;
    let word = rest.iter().position(|it| *it == b' ')?;
    line[..5]
        .eq_ignore_ascii_case(b"AUTH ")
        .then_some(5 + word + 1)
}

fn auth(head: &str, secret: &[u8]) -> Result<Command, Fault> {
    let mechanism = head.trim_ascii_end().get(5..).and_then(Sasl::named);
    let secret = secret.trim_ascii_end();
    let initial = (!secret.is_empty()).then(|| Secret(secret.to_vec()));
    Ok(Command::Auth(mechanism.ok_or(MECHANISM)?, initial))
}

fn bdat(rest: &str, packed: bool) -> Result<Command, Fault> {
    let (octets, last) = match rest.split_once(' ') {
        None => (rest, false),
        Some((octets, word)) if word.eq_ignore_ascii_case("LAST") => (octets, true),
        Some(_) => return Err(PARAMETER),
    };
    let octets = number(octets).ok_or(PARAMETER)?;
    Ok(Command::Bdat {
        octets,
        last,
        packed,
    })
}

/// Digits alone, few enough for any octets there are.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// The name of ETRN (RFC 1985 section 5.1): a domain, or `@` with one. Queues have no names here.
fn turn(rest: &str) -> Option<String> {
    let domain = rest.strip_prefix('@').unwrap_or(rest);
    is_domain(domain).then(|| rest.to_string())
}

/// Sixteen digits of a message's number between switches of ours.
fn hex(text: &str) -> Option<u64> {
    let digits = text.len() == 16 && text.bytes().all(|it| it.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| digits)
}

fn resume(value: &str) -> Option<(u64, u64)> {
    let (id, from) = value.split_once(',')?;
    Some((hex(id)?, number(from)?))
}

fn mail(rest: &str) -> Result<Command, Fault> {
    let (sender, rest) = path(rest).ok_or(SENDER)?;
    let mut mail = MailFrom {
        sender,
        ..MailFrom::default()
    };
    let mut body = None;
    for (key, value) in parameters(rest) {
        match key.to_ascii_uppercase().as_str() {
            "SIZE" => once(&mut mail.octets, number(value).ok_or(PARAMETER)?)?,
            "BODY" => once(&mut body, Body::named(value).ok_or(PARAMETER)?)?,
            "RET" => once(&mut mail.headers_only, ret(value).ok_or(PARAMETER)?)?,
            "ENVID" => once(&mut mail.envid, xtext(value, ENVID_MAX).ok_or(PARAMETER)?)?,
            "MT-PRIORITY" => {
                let value = parse_wire(value.as_bytes()).ok_or(PRIORITY)?;
                once(&mut mail.priority, value).map_err(|_| PRIORITY)?;
            }
            "BY" => once(&mut mail.by, DeliverBy::parse(value).ok_or(PARAMETER)?)?,
            "XRESUME" => once(&mut mail.resume, resume(value).ok_or(PARAMETER)?)?,
            // Whom the client speaks for (RFC 4954 section 5) counts for nothing here.
            "AUTH" if !value.is_empty() => {}
            _ => return Err(NOT_OFFERED),
        }
    }
    mail.body = body.unwrap_or_default();
    Ok(Command::Mail(mail))
}

fn rcpt(rest: &str) -> Result<Command, Fault> {
    let (address, rest) = path(rest).filter(|it| !it.0.is_empty()).ok_or(RECIPIENT)?;
    let (mut notify, mut orcpt) = (None, None);
    for (key, value) in parameters(rest) {
        match key.to_ascii_uppercase().as_str() {
            "NOTIFY" => once(&mut notify, Notify::parse(value).ok_or(PARAMETER)?)?,
            "ORCPT" => once(&mut orcpt, original(value).ok_or(PARAMETER)?)?,
            _ => return Err(NOT_OFFERED),
        }
    }
    let notify = notify.unwrap_or_default();
    Ok(Command::Rcpt(RcptTo {
        address,
        notify,
        orcpt,
    }))
}

fn parameters(rest: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = rest.split(' ').filter(|it| !it.is_empty());
    words.map(|it| it.split_once('=').unwrap_or((it, "")))
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<(), Fault> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(TWICE),
    }
}

fn ret(value: &str) -> Option<bool> {
    match value.to_ascii_uppercase().as_str() {
        "HDRS" => Some(true),
        "FULL" => Some(false),
        _ => None,
    }
}

/// Text in which `+` begins two digits of a base of 16 (RFC 3461 section 4). It is passed on as it
/// is, so nothing decodes it here.
fn xtext(value: &str, most: usize) -> Option<String> {
    let mut octets = value.bytes();
    let upper = |it: Option<u8>| it.is_some_and(|it| matches!(it, b'0'..=b'9' | b'A'..=b'F'));
    let mut right = !value.is_empty() && value.len() <= most;
    while let Some(octet) = octets.next() {
        right &= octet.is_ascii_graphic() && octet != b'=';
        right &= octet != b'+' || (upper(octets.next()) && upper(octets.next()));
    }
    right.then(|| value.to_string())
}

/// A kind of address and the address (`ORCPT=rfc822;a@b.example`).
fn original(value: &str) -> Option<String> {
    let (kind, address) = value.split_once(';')?;
    let word = !kind.is_empty()
        && kind
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || it == b'-');
    // The text may be empty (section 4.2), as no other may.
    let right = address.is_empty() || xtext(address, ORCPT_MAX).is_some();
    (word && right).then_some(())?;
    Some(value.to_string())
}

/// A path in brackets, whose source route counts for nothing (RFC 5321 appendix F.2), and what is
/// behind it.
fn path(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start_matches(' ').strip_prefix('<')?;
    let end = end_of_path(text)?;
    let (path, rest) = (&text[..end], &text[end + 1..]);
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let path = match path.strip_prefix('@') {
        Some(route) => route.split_once(':')?.1,
        None => path,
    };
    if path.is_empty() {
        return Some((String::new(), rest));
    }
    is_address(path).then(|| (path.to_string(), rest))
}

/// Where the bracket is that closes, outside of quotes.
fn end_of_path(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, octet) in text.bytes().enumerate() {
        match octet {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'>' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Whether a text is an address: a local part, `@` and a domain or a literal in brackets.
pub fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    text.len() <= ADDRESS_OCTETS_MAX && (is_atoms(local) || is_quoted(local)) && is_domain(domain)
}

fn is_atoms(local: &str) -> bool {
    let atext = |it: u8| it.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&it);
    let mut atoms = local.split('.');
    local.len() <= 64 && atoms.all(|atom| !atom.is_empty() && atom.bytes().all(atext))
}

fn is_quoted(local: &str) -> bool {
    let inner = local.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    let Some(inner) = inner.filter(|_| (3..=64).contains(&local.len())) else {
        return false;
    };
    let mut octets = inner.bytes();
    let printable = |it: u8| matches!(it, b' '..=b'~');
    while let Some(octet) = octets.next() {
        let right = match octet {
            b'"' => false,
            b'\\' => octets.next().is_some_and(printable),
            octet => printable(octet),
        };
        if !right {
            return false;
        }
    }
    true
}

/// Whether a text is a domain.
pub fn is_domain(text: &str) -> bool {
    if let Some(literal) = text.strip_prefix('[') {
        let octet = |it: u8| it.is_ascii_alphanumeric() || b".:-".contains(&it);
        let inner = literal.strip_suffix(']');
        return inner.is_some_and(|it| !it.is_empty() && it.bytes().all(octet));
    }
    let label = |it: &str| {
        let octet = |it: u8| it.is_ascii_alphanumeric() || it == b'-' || it == b'_';
        (1..=63).contains(&it.len()) && it.bytes().all(octet) && !it.starts_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// The domain of an address.
pub fn domain_of(address: &str) -> &str {
    address.rsplit_once('@').map_or("", |(_, domain)| domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail_of(line: &str) -> MailFrom {
        match parse(line.as_bytes()) {
            Ok(Command::Mail(mail)) => mail,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn fault(line: &str) -> &'static str {
        parse(line.as_bytes()).unwrap_err().0
    }

    #[test]
    fn mail_has_its_parameters_in_any_order_and_case() {
        let line =
            "mail FROM:<a@b.example> size=100 BODY=8bitmime RET=hdrs ENVID=QQ+2B MT-Priority=-4";
        let mail = MailFrom {
            sender: "a@b.example".into(),
            octets: Some(100),
            body: Body::EightBit,
            priority: Some(-4),
            headers_only: Some(true),
            envid: Some("QQ+2B".into()),
            by: None,
            resume: None,
        };
        assert_eq!(mail_of(line), mail);
        assert_eq!(mail_of("MAIL FROM:<>").sender, "");
        assert_eq!(mail_of("MAIL FROM: <@x,@y:a@b>").sender, "a@b");
        assert_eq!(
            mail_of("MAIL FROM:<\"a > b\"@c> SIZE=1").sender,
            "\"a > b\"@c"
        );
    }

    #[test]
    fn a_time_to_be_there_has_a_mode_and_counts_down() {
        for (value, text) in [
            ("120;R", "120;R"),
            ("+120;rt", "120;RT"),
            ("0;N", "0;N"),
            ("-60;NT", "-60;NT"),
        ] {
            let by = mail_of(&alloc::format!("MAIL FROM:<a@b> BY={value}")).by;
            assert_eq!(by.map(DeliverBy::text).as_deref(), Some(text));
        }
        let by = DeliverBy::parse("120;R").unwrap();
        assert_eq!(by.later(130).text(), "-10;R");
        assert_eq!(by.later(u64::MAX).text(), "-999999999;R");
    }

    #[test]
    fn none_and_zero_are_two_priorities() {
        assert_eq!(mail_of("MAIL FROM:<a@b>").priority, None);
        assert_eq!(mail_of("MAIL FROM:<a@b> MT-PRIORITY=0").priority, Some(0));
    }

    #[test]
    fn a_wrong_or_second_priority_is_refused() {
        for rest in ["=10", "=+3", "=-0", "=03", "=", "", "=3 MT-PRIORITY=3"] {
            let line = alloc::format!("MAIL FROM:<a@b> MT-PRIORITY{rest}");
            assert_eq!(&fault(&line)[..9], "501 5.5.2", "{line}");
        }
    }

    #[test]
    fn recipients_say_when_they_want_reports() {
        let line = "RCPT TO:<Dana@Ivory.example.net> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;Dana@Ivory.example.net";
        let Ok(Command::Rcpt(rcpt)) = parse(line.as_bytes()) else {
            panic!("{line}");
        };
        assert_eq!(rcpt.address, "Dana@Ivory.example.net");
        assert_eq!(rcpt.notify.text(), "SUCCESS,FAILURE");
        assert_eq!(rcpt.orcpt.as_deref(), Some("rfc822;Dana@Ivory.example.net"));
        assert!(parse(b"RCPT TO:<a@b> ORCPT=x400;").is_ok());
        assert!(rcpt.notify.success() && rcpt.notify.failure());
        assert!(Notify::UNSAID.failure() && !Notify::UNSAID.success());
        assert!(Notify::parse("NEVER").is_some_and(|it| !it.failure()));
    }

    #[test]
    fn what_is_wrong_is_told_by_its_code() {
        for (line, code) in [
            ("", "500 5.5.1"),
            ("FAX", "500 5.5.1"),
            ("DATA now", "501 5.5.4"),
            ("MAIL TO:<a@b>", "501 5.5.2"),
            ("MAIL FROM:a@b", "501 5.1.7"),
            ("MAIL FROM:<a@b>x", "501 5.1.7"),
            ("MAIL FROM:<a b@c>", "501 5.1.7"),
            ("MAIL FROM:<a..b@c>", "501 5.1.7"),
            ("MAIL FROM:<a@b> SIZE=-1", "501 5.5.4"),
            ("MAIL FROM:<a@b> SIZE=99999999999999999999", "501 5.5.4"),
            ("MAIL FROM:<a@b> BODY=16BIT", "501 5.5.4"),
            ("MAIL FROM:<a@b> XRESUME=0123456789abcdef", "501 5.5.4"),
            ("XRESUME +123456789abcdef", "501 5.5.4"),
            ("XRESUME 123", "501 5.5.4"),
            ("MAIL FROM:<a@b> SIZE=1 SIZE=1", "501 5.5.4"),
            ("MAIL FROM:<a@b> BY=120", "501 5.5.4"),
            ("MAIL FROM:<a@b> BY=0;R", "501 5.5.4"),
            ("MAIL FROM:<a@b> BY=1234567890;R", "501 5.5.4"),
            ("MAIL FROM:<a@b> BY=+-1;N", "501 5.5.4"),
            ("MAIL FROM:<a@b> BY=1;T", "501 5.5.4"),
            ("MAIL FROM:<a@b> BY=1;R BY=1;R", "501 5.5.4"),
            ("MAIL FROM:<a@b> HOLD=1", "555 5.5.4"),
            ("RCPT TO:<>", "501 5.1.3"),
            ("RCPT TO:<a@b> NOTIFY=NEVER,DELAY", "501 5.5.4"),
            ("RCPT TO:<a@b> ORCPT=rfc822;+2g", "501 5.5.4"),
            ("BDAT", "501 5.5.4"),
            ("BDAT 1 FIRST", "501 5.5.4"),
            ("BDAT +1", "501 5.5.4"),
            ("EHLO", "501 5.5.4"),
            ("EHLO a(b)", "501 5.5.4"),
            ("NOOP \u{7}", "501 5.5.2"),
        ] {
            assert_eq!(&fault(line)[..9], code, "{line}");
        }
        assert_eq!(fault("\u{0}"), SYNTAX.0);
        assert!(parse(b"NOOP \xff").is_err());
    }

    #[test]
    fn chunks_have_their_length() {
        let bdat = |octets, last, packed| {
            Ok(Command::Bdat {
                octets,
                last,
                packed,
            })
        };
        assert_eq!(parse(b"BDAT 0 last"), bdat(0, true, false));
        assert_eq!(parse(b"bdat 1000"), bdat(1000, false, false));
        assert_eq!(parse(b"XBDAT 1000 LAST"), bdat(1000, true, true));
    }

    #[test]
    fn switches_of_ours_ask_how_much_has_come() {
        assert_eq!(parse(b"XRESUME 00000000000000Ff"), Ok(Command::Resume(255)));
        let mail = mail_of("MAIL FROM:<a@b> BODY=BINARYMIME XRESUME=00000000000000ff,1000");
        assert_eq!((mail.body, mail.resume), (Body::Binary, Some((255, 1000))));
    }
}
