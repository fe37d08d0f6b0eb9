//! The setting `dns_servers`.

use crate::config::setting::{RawValue, Readable, Setting, ValueProblem};
use crate::dns::DnsServers;
use crate::limits::DNS_SERVERS_MAX;

impl Readable for DnsServers {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let texts = setting.texts(raw)?;
        if texts.len() > DNS_SERVERS_MAX {
            return Err(setting.problem(format_args!("has more than {DNS_SERVERS_MAX} elements")));
        }
        DnsServers::parse(&texts).map_err(|text| {
            let hint = match text {
                "localhost" => "write \"127.0.0.1\"",
                _ => "write an IP address, such as \"10.0.0.2\", \"10.0.0.2:8600\" or \"[::1]:53\"",
            };
            setting.problem(format_args!("cannot contain {text:?}")).hint(hint)
        })
    }
}
