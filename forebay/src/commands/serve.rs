//! `forebay serve`: starts a server from flags and configuration file.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use clap::ArgMatches;
use clap::parser::ValueSource;
use forebay_rules::filter::Filters;
use forebay_server::config::{self, Config, ConfigErrors, ConfigSource, FlagValue};
use forebay_server::engine::{Hooks, Running, StartError, restrict_privileges, start, upgrade};

use super::is_set;
use crate::{logging, stdout};

/// Number of ports that are tried after the default port, if no port was given.
const FURTHER_PORTS: u16 = 20;

pub(super) fn run(args: &ArgMatches, filters: &Filters) -> Result<ExitCode, String> {
    restrict_privileges();
    let inputs = ConfigInputs::of(args, filters);
    let running = match is_set(args, "upgrade") {
        true => upgrade_with(inputs)?,
        false => start_with(inputs)?,
    };
    stdout::announce(addresses(&running));
    finish(running)
}

/// Runs the server until it exits.
pub(super) fn finish(running: Running) -> Result<ExitCode, String> {
    match running.run() {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::from(EXIT_CUT)),
        Err(error) => Err(format!("the server failed: {error}")),
    }
}

/// Exit code if requests were cut off at the end of the drain time.
const EXIT_CUT: u8 = 3;

/// The source of the configuration, read at the start and at each reload.
#[derive(Clone)]
pub(super) struct ConfigInputs {
    pub(super) source: SiteSource,
    /// Name and value of each flag.
    pub(super) flags: Vec<(String, String)>,
    /// Whether no port was given, so that the server may use another port if the default port is in
    /// use.
    pub(super) any_port: bool,
    /// Filters for header rules.
    pub(super) filters: Filters,
}

/// The source of the sites: a configuration file, or an origin without a file.
#[derive(Clone)]
pub(super) enum SiteSource {
    File(PathBuf),
    Origins(Vec<String>),
}

impl ConfigInputs {
    fn of(args: &ArgMatches, filters: &Filters) -> ConfigInputs {
        let flags = flags(args);
        let origins = args.get_many::<String>("origin").unwrap_or_default();
        let source = match args.get_one::<String>("config") {
            Some(file) => SiteSource::File(PathBuf::from(file)),
            None => SiteSource::Origins(origins.cloned().collect()),
        };
        let any_port = matches!(source, SiteSource::Origins(_))
            && flags.iter().all(|(name, _)| name != "listen");
        ConfigInputs { source, flags, any_port, filters: filters.clone() }
    }

    fn load(&self) -> Result<Config, ConfigErrors> {
        let flags = self.flags.iter().map(|(name, value)| FlagValue { name, value });
        let flags: Vec<_> = flags.collect();
        match &self.source {
            SiteSource::Origins(urls) => {
                let urls: Vec<_> = urls.iter().map(String::as_str).collect();
                Config::load_with(ConfigSource::Origins(&urls), &flags, &self.filters)
            }
            SiteSource::File(path) => {
                Config::load_with(ConfigSource::File(path), &flags, &self.filters)
            }
        }
    }
}

/// The settings that were given as flags.
pub(super) fn flags(args: &ArgMatches) -> Vec<(String, String)> {
    let names = config::flags().into_iter().map(|flag| flag.name);
    let given = names.filter(|name| {
        // `try` has no flag `files`.
        args.try_contains_id(name).is_ok()
            && args.value_source(name).is_some_and(|source| source == ValueSource::CommandLine)
    });
    let values = given.flat_map(|name| {
        let values = args.get_many::<String>(&name).into_iter().flatten().cloned();
        values.map(move |value| (name.clone(), value)).collect::<Vec<_>>()
    });
    values.collect()
}

/// Starts a server. If no port was given and the default port is in use, the server uses one of the
/// next ports.
///
/// # Errors
/// The text is a message for the user. For an invalid configuration it lists all errors.
pub(super) fn start_with(inputs: ConfigInputs) -> Result<Running, String> {
    let config = inputs.load().map_err(|errors| errors.to_string())?;
    let level = Rc::new(logging::begin(config.server.log_level));
    let first = config.server.listen.first;
    let last_port = match inputs.any_port {
        true => first.port().saturating_add(FURTHER_PORTS),
        false => first.port(),
    };
    let mut refused = String::new();
    for port in first.port()..=last_port {
        let mut config = config.clone();
        config.server.listen.first.set_port(port);
        match start(config, hooks(&inputs, port, &level)) {
            Ok(running) => return Ok(running),
            Err(StartError::Listen(_, error)) if error.kind() == io::ErrorKind::AddrInUse => {
                refused = format!("cannot listen on {}:{port}: the port is in use", first.ip());
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Err(format!("{refused}; choose another one with --listen IP:PORT"))
}

/// Takes over from the server that listens on the configured address.
///
/// # Errors
/// The text is a message for the user; the running server continues.
fn upgrade_with(inputs: ConfigInputs) -> Result<Running, String> {
    // A server on another port cannot be upgraded.
    let inputs = ConfigInputs { any_port: false, ..inputs };
    let config = inputs.load().map_err(|errors| errors.to_string())?;
    let level = Rc::new(logging::begin(config.server.log_level));
    let hooks = hooks(&inputs, config.server.listen.first.port(), &level);
    upgrade(config, hooks).map_err(|error| error.to_string())
}

fn hooks(inputs: &ConfigInputs, port: u16, level: &Rc<logging::LogLevelHandle>) -> Hooks {
    let (inputs, level) = (inputs.clone(), Rc::clone(level));
    Hooks {
        load: Box::new(move || {
            let mut config = inputs.load()?;
            if inputs.any_port {
                config.server.listen.first.set_port(port);
            }
            Ok(config)
        }),
        applied: Box::new(move |config| level.set(config.server.log_level)),
    }
}

/// The lines that tell users and supervisors that the server is ready.
pub(super) fn addresses(running: &Running) -> String {
    let lines: String = running.urls.iter().map(|url| format!("listening on {url}\n")).collect();
    lines + &format!("admin on {}\n", running.admin)
}
