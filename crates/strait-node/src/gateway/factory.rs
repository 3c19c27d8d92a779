//! Who makes gateways.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use strait_core::Node;
use strait_core::node::{Boot, NodeFactory};
use strait_core::stats::{ClassStats, PortStats, Presence, Stats, Talkers};
use strait_qos::{Policy, PolicyConfig};
use strait_wire::hash::hash64;

use super::Gateway;
use crate::config::{InvalidConfig, NodeConfig, PortConfig};

/// Starts gateways of one configuration.
#[derive(Clone, Debug)]
pub struct GatewayFactory {
    config: NodeConfig,
    policy: Arc<Policy>,
}

/// Compiled policies: gateways whose policies say the same look at one.
#[derive(Debug, Default)]
pub struct Policies {
    known: Vec<(PolicyConfig, Arc<Policy>)>,
}

impl Policies {
    /// The policy of a configuration that is right otherwise.
    pub(super) fn compile(&mut self, config: &NodeConfig) -> Result<Arc<Policy>, InvalidConfig> {
        config.validate()?;
        let mut known = self.known.iter();
        if let Some((_, policy)) = known.find(|(known, _)| *known == config.policy) {
            check_ports(config, policy)?;
            return Ok(policy.clone());
        }
        let policy = Policy::compile(&config.policy).map_err(|error| InvalidConfig {
            place: "[policy]".into(),
            message: error.to_string(),
        })?;
        check_ports(config, &policy)?;
        let policy = Arc::new(policy);
        self.known.push((config.policy.clone(), policy.clone()));
        Ok(policy)
    }
}

/// Ports that the policy asks for are the node's.
fn check_ports(config: &NodeConfig, policy: &Policy) -> Result<(), InvalidConfig> {
    let own = |name: &str| config.port_names().any(|own| own == name);
    let Some(missing) = policy.ports().iter().find(|name| !own(name)) else {
        return Ok(());
    };
    let names: Vec<&str> = config.port_names().collect();
    Err(InvalidConfig {
        place: "[policy]".into(),
        message: format!(
            "`untrusted` and `ingress` name ports of this node, and `{missing}` is none: write one \
             of {}",
            names.join(", ")
        ),
    })
}

impl GatewayFactory {
    /// A factory, if the configuration can work.
    pub fn new(config: NodeConfig) -> Result<Self, InvalidConfig> {
        Self::beside(config, &mut Policies::default())
    }

    /// The same in a world with others, whose policies are known.
    pub fn beside(config: NodeConfig, policies: &mut Policies) -> Result<Self, InvalidConfig> {
        let policy = policies.compile(&config)?;
        Gateway::with_policy(&config, policy.clone(), seed(&Boot::default()), &[])?;
        Ok(Self { config, policy })
    }

    /// The configuration.
    pub const fn config(&self) -> &NodeConfig {
        &self.config
    }
}

/// What a gateway's chance follows from.
pub(super) fn seed(boot: &Boot) -> u64 {
    hash64(boot.entropy, &boot.incarnation.to_le_bytes())
}

impl NodeFactory for GatewayFactory {
    fn boot(&self, boot: Boot) -> Box<dyn Node> {
        let policy = self.policy.clone();
        match Gateway::with_policy(&self.config, policy, seed(&boot), &boot.stored) {
            Ok(gateway) => Box::new(gateway),
            Err(error) => unreachable!("checked when the factory was made: {error}"),
        }
    }
}

/// The counters of a gateway that has counted nothing.
pub(super) fn stats(config: &NodeConfig, policy: &Policy) -> Stats {
    let port = |name: &str| PortStats {
        name: name.to_string(),
        ..PortStats::default()
    };
    let side = |name: &str| PortStats {
        presence: Presence {
            is_host: true,
            ..Presence::default()
        },
        ..port(name)
    };
    let link = |entry: &PortConfig| PortStats {
        hf: entry.station_stats(),
        client: entry.client_stats(),
        neighbours: entry.neighbour_stats(),
        ..port(&entry.name)
    };
    let class = |name: &str| ClassStats {
        name: name.to_string(),
        ..ClassStats::default()
    };
    Stats {
        talkers: Some(Talkers::default()),
        classes: policy
            .classes()
            .iter()
            .map(|entry| class(&entry.name))
            .collect(),
        ports: core::iter::once(side(config.host.name()))
            .chain(config.ports.iter().map(link))
            .chain(config.host.further.iter().map(|it| side(it.name())))
            .collect(),
        ..Stats::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_text;

    #[test]
    fn gateways_whose_policies_say_the_same_have_one() {
        let mut policies = Policies::default();
        let mut policy = |preset| {
            let text = alloc::format!(
                "name = \"g\"\n[host]\n[policy]\npreset = \"{preset}\"\n\
                 [[port]]\nname = \"p\"\nkind = \"udp\"\n"
            );
            let config = config_text::parse("test", &text).unwrap();
            GatewayFactory::beside(config, &mut policies)
                .unwrap()
                .policy
        };
        let [first, second, other] = ["default", "default", "fifo"].map(&mut policy);
        assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &other));
    }
}
