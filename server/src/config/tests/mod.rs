//! Tables of valid and invalid configurations; several files; lookups of sites and routes; the
//! documents that are generated from the table of settings.

mod access_logs;
mod bad;
mod difference;
mod good;
mod includes;
mod listen;
mod lookup;
mod references;
mod route_conditions;
mod route_origins;
mod route_regex;
mod service;
mod site_listen;
mod unknown;
