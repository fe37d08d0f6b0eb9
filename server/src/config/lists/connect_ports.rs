//! The setting `connect_ports`.

use crate::config::Route;
use crate::config::read::raw;
use crate::config::setting::{RawValue, Readable, Setting, ValueProblem};
use crate::limits::CONNECT_PORTS_MAX;

/// The ports to which the clients of a site may open tunnels by CONNECT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectPorts(Vec<u16>);

impl ConnectPorts {
    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the list has the port.
    pub fn has(&self, port: u16) -> bool {
        self.0.contains(&port)
    }

    /// Returns the problem with tunnels to the origins of this route; `None` if there is none.
    pub(in crate::config) fn problem_with(&self, route: &Route) -> Option<ValueProblem> {
        if self.is_empty() {
            return None;
        }
        if let Some((name, _)) = route.settings.answers().iter().find(|(_, is_on)| *is_on) {
            let message = format!("`connect_ports` is set for a site with `{name}` for /");
            let hint = "a tunnel needs an origin; leave one of them out";
            return Some(ValueProblem::new(message).hint(hint));
        }
        let mut addresses = route.origins.members().iter().map(|member| &member.address);
        let secured = addresses.find(|address| address.tls.is_some())?;
        let message = format!(
            "`connect_ports` is set for a site with an `https` origin: {}",
            secured.authority
        );
        let hint = "the client of a tunnel begins TLS with the origin itself, and a second TLS \
                    around it would not be understood; write an `http` URL with the same port";
        Some(ValueProblem::new(message).hint(hint))
    }
}

impl Readable for ConnectPorts {
    fn read(given: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let mut ports = Vec::new();
        let mut add = |text: &str| {
            let problem = || setting.problem(format_args!("cannot contain {text}"));
            let Some(port) = text.parse::<u16>().ok().filter(|port| *port != 0) else {
                return Err(problem().hint("a port is a number from 1 to 65535"));
            };
            if ports.contains(&port) {
                return Err(problem().hint("the port is already in the list"));
            }
            ports.push(port);
            Ok(())
        };
        let not_a_list =
            |port: String| setting.problem("is not an array").hint(format!("write [{port}]"));
        match given {
            RawValue::Array(array) => {
                array.iter().try_for_each(|one| match raw(one.get_ref()) {
                    RawValue::Integer(number) => add(&number.to_string()),
                    _ => Err(setting
                        .problem("has an element that is not a number")
                        .hint("write ports without quotes, such as [443]")),
                })?;
            }
            RawValue::Integer(port) => return Err(not_a_list(port.to_string())),
            RawValue::Text(port) if port.parse::<u16>().is_ok() => {
                return Err(not_a_list(port.to_owned()));
            }
            given => setting.texts(given)?.into_iter().try_for_each(add)?,
        }
        if ports.len() > CONNECT_PORTS_MAX {
            let problem = format_args!("has more than {CONNECT_PORTS_MAX} elements");
            return Err(setting.problem(problem));
        }
        Ok(ConnectPorts(ports))
    }
}
