//! `sni.yaml`: restrictions by the name of a TLS handshake.

use super::host::RuleHosts;
use super::source::TsSource;
use super::yaml::YamlNode;

/// The hosts whose clients have to fulfil conditions that are not carried over. Other settings are
/// noted.
pub(super) fn closed_hosts(source: &TsSource, root: &YamlNode) -> Vec<RuleHosts> {
    let list = root.get("sni").map(YamlNode::list).unwrap_or_default();
    let mut closed = Vec::new();
    for node in list {
        let name = node.text_of("fqdn").unwrap_or("*").to_ascii_lowercase();
        let host = match name.strip_prefix("*.") {
            Some(zone) => RuleHosts::Below(zone.to_owned()),
            None if name == "*" => RuleHosts::Any,
            None => RuleHosts::Name(name),
        };
        for (name, value) in node.pairs() {
            let is_none = value.text().eq_ignore_ascii_case("none");
            match name.as_str() {
                "fqdn" => {}
                "verify_client" if is_none => {}
                "verify_client" | "ip_allow" | "host_sni_policy" | "verify_client_ca_certs" => {
                    if source.refuse(&value.at, name, "it restricts clients") {
                        closed.push(host.clone());
                    }
                }
                _ => source.note(&value.at, name, "left out: see docs/tls.md"),
            }
        }
    }
    closed
}
