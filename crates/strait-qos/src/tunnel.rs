//! How a network that carries a gateway's frames learns their contents.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use strait_core::ClassId;
use strait_wire::ip::PacketInfo;

use crate::config::PolicyConfig;
use crate::dscp::Dscp;
use crate::policy::{Policy, PolicyError};

impl PolicyConfig {
    /// For each class the code point of datagrams that carry its packets (RFC 2983): the first in
    /// its rules by which such a datagram returns to the same class, under this policy. Best effort
    /// without one.
    ///
    /// # Errors
    /// The fault of the policy.
    pub fn tunnel_code_points(&self) -> Result<Vec<Dscp>, PolicyError> {
        let (config, policy) = (self.expand()?, Policy::compile(self)?);
        let class_of = |dscp: Dscp| {
            let verdict = policy.classify(&datagram(dscp));
            (!verdict.filter).then_some(verdict.class)
        };
        let classes = policy.classes().iter().enumerate();
        let code_point = |(index, class): (usize, &crate::Class)| {
            let rules = config.rules.iter();
            let own = rules.filter(|rule| rule.class.as_ref() == Some(&class.name));
            let mut named = own.flat_map(|rule| rule.code_points().unwrap_or_default());
            let fits = |dscp: &Dscp| class_of(*dscp) == Some(ClassId(index as u8));
            named.find(fits).unwrap_or_default()
        };
        Ok(classes.map(code_point).collect())
    }
}

/// A datagram without real ends: rules about addresses or ports aren't meant for it.
fn datagram(dscp: Dscp) -> PacketInfo {
    const UDP: u8 = 17;
    let nobody = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    PacketInfo {
        src: nobody,
        dst: nobody,
        protocol: UDP,
        dscp: dscp.number(),
        ecn: 0,
        hop_limit: 64,
        flow_label: 0,
        ports: Some((0, 0)),
        spi: None,
        tcp_bare: None,
        octets: 100,
        dont_fragment: true,
        later_fragment: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_come_into_the_class_that_they_carry() {
        let config = PolicyConfig::default();
        let policy = Policy::compile(&config).unwrap();
        let marks = config.tunnel_code_points().unwrap();
        assert_eq!(marks.len(), policy.classes().len());
        let of = |name: &str| marks[policy.class_named(name).unwrap().index()];
        assert_eq!(of("voice").number(), 46);
        assert_eq!(of("standard"), Dscp::default());
        for (index, mark) in marks.iter().enumerate() {
            let class = policy.classify(&datagram(*mark)).class;
            let named = *mark != Dscp::default();
            assert!(class.index() == index || !named, "{index} {mark}");
        }
    }

    #[test]
    fn a_class_that_no_code_point_leads_to_goes_as_best_effort() {
        let text = "default = \"rest\"\n[[class]]\nname = \"dns\"\n[[class]]\nname = \"rest\"\n\
                    [[match]]\nclass = \"dns\"\nport = 53\n";
        let config: PolicyConfig = toml::from_str(text).unwrap();
        let marks = config.tunnel_code_points().unwrap();
        assert_eq!(marks, [Dscp::default(); 2]);
    }
}
