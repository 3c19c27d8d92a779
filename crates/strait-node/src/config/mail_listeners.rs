//! Where mail programs come to a message switch, and what they may there.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::{Deserialize, Serialize};
use strait_mail::{ListenSettings, Precedence, Tls};

use super::{InvalidConfig, MailConfig, invalid};
use crate::Prefix;

/// A further address where mail programs bring mail, with rules of its own.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct MailListenerConfig {
    /// The address.
    pub address: SocketAddr,
    /// Which programs may; those of `[mail]` if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Prefix>,
    /// The precedence of what says nothing of one; that of `[mail]` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Precedence>,
    /// The highest precedence that they may ask for; as `trust` of `[mail]` has it if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<Precedence>,
    /// Whether they log in; if anybody can, they have to where this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<bool>,
}

impl MailConfig {
    /// All addresses where programs bring mail.
    pub(super) fn submission(&self) -> Vec<ListenSettings> {
        let local = |address, length| Prefix { address, length };
        let clients = if self.clients.is_empty() {
            alloc::vec![
                local(Ipv4Addr::LOCALHOST.into(), 8),
                local(Ipv6Addr::LOCALHOST.into(), 128),
            ]
        } else {
            self.clients.clone()
        };
        let listens = |address: &SocketAddr, at_once| ListenSettings {
            address: *address,
            tls: self.tls.clone().map(|profile| Tls { profile, at_once }),
            users: !self.users.is_empty(),
            dscp: 0,
            default: self.default,
            clients: clients.clone(),
            most: (!self.trust).then_some(Precedence::Priority),
            lane: false,
        };
        let clear = self.listen.iter().map(|it| listens(it, false));
        let at_once = self.listen_tls.iter().map(|it| listens(it, true));
        let others = self.listeners.iter().map(|it| {
            let as_usual = listens(&it.address, false);
            let own = Some(&it.clients).filter(|it| !it.is_empty());
            ListenSettings {
                clients: own.unwrap_or(&as_usual.clients).clone(),
                default: it.default.unwrap_or(as_usual.default),
                most: it.most.or(as_usual.most),
                users: it.login.unwrap_or(as_usual.users),
                ..as_usual
            }
        });
        clear.chain(at_once).chain(others).collect()
    }

    pub(super) fn validate_submission(&self) -> Result<(), InvalidConfig> {
        let mut seen = BTreeSet::new();
        let all = self.listen.iter().chain(&self.listen_tls);
        for address in all.chain(self.listeners.iter().map(|it| &it.address)) {
            let nobody = address.ip().is_unspecified() || address.ip().is_multicast();
            if address.port() == 0 || nobody {
                let message =
                    "takes an address of one host, and a port: such as \"127.0.0.1:2525\"";
                return Err(invalid("[mail] listen", message));
            }
            if !seen.insert(address) {
                let message = format!("`{address}` is repeated");
                return Err(invalid("[mail] listen", message));
            }
        }
        for listener in &self.listeners {
            let login = listener.login.unwrap_or(!self.users.is_empty());
            let message = if login && self.users.is_empty() {
                "`login` needs a [[mail.user]]"
            } else if login && listener.most.is_some() {
                "has `most` for programs without a login: write `most` of [[mail.user]], or \
                 login = false"
            } else {
                continue;
            };
            let place = format!("[[mail.listener]] {}", listener.address);
            return Err(invalid(place, message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::config::NodeConfig;
    use crate::config_text::{complaint_about, parse};

    fn text(mail: &str) -> alloc::string::String {
        format!(
            "name = \"a\"\n[host]\naddresses = [\"10.9.0.1/30\"]\n[state]\nfile = \"a.db\"\n\
             [[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = 9600\n\
             [tls.x]\ncertificate = \"c\"\nkey = \"k\"\n[mail]\ntls = \"x\"\n\
             listen = [\"127.0.0.1:2525\"]\n{mail}\n"
        )
    }

    const USER: &str = "[[mail.user]]\nname = \"ops\"\npassword = \"a$1$b$c\"\n";

    #[test]
    fn a_listener_has_rules_of_its_own_and_else_those_of_all() {
        let mail = "trust = false\nclients = [\"10.1.0.0/24\"]\n\
                    [[mail.listener]]\naddress = \"10.1.0.1:2526\"\n\
                    [[mail.listener]]\naddress = \"10.1.0.1:2527\"\nclients = [\"10.1.0.7/32\"]\n\
                    default = \"immediate\"\nmost = \"flash\"\nlogin = false\n";
        let config: NodeConfig = parse("test", &text(&[mail, USER].concat())).unwrap();
        let written: NodeConfig = parse("again", &toml::to_string(&config).unwrap()).unwrap();
        assert_eq!(written, config);
        let all = config.mail().unwrap().submission();
        let rules =
            |it: &ListenSettings| (it.default, it.most, it.users, it.clients[0].to_string());
        let usual = (
            Precedence::Routine,
            Some(Precedence::Priority),
            true,
            "10.1.0.0/24".to_string(),
        );
        assert_eq!((rules(&all[0]), rules(&all[1])), (usual.clone(), usual));
        let own = (
            Precedence::Immediate,
            Some(Precedence::Flash),
            false,
            "10.1.0.7/32".to_string(),
        );
        assert_eq!(rules(&all[2]), own);
    }

    #[test]
    fn what_cannot_work_is_named_with_its_remedy() {
        let one = |rest: &str| format!("[[mail.listener]]\naddress = \"10.1.0.1:2526\"\n{rest}");
        for (mail, what) in [
            (one("login = true\n"), "10.1.0.1:2526: `login` needs a"),
            (one("most = \"flash\"\n") + USER, "or login = false"),
            (one("").repeat(2), "`10.1.0.1:2526` is repeated"),
            (one("").replace("2526", "0"), "takes an address of one host"),
        ] {
            let complaint = complaint_about(&text(&mail)).unwrap();
            assert!(complaint.contains(what), "{complaint}");
        }
    }
}
