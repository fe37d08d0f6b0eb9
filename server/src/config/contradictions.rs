//! Checks values of the server's settings that are valid alone but not together.

use forebay_cache::ConfigError as CacheError;

use super::read::{TopLevel, find};
use super::setting::ValueProblem;
use super::table::SERVER;
use super::{AdminAddress, ServerSettings, SettingKind};
use crate::engine::has_room_for_stacks;

/// Returns the problems of values that are valid alone but not together, each with the name of the
/// setting to blame. If a default value exceeds a limit that the user has lowered, that is not a
/// problem, because the lower limit applies.
pub(super) fn contradictions(top: &TopLevel) -> Vec<(&'static str, ValueProblem)> {
    let server = &top.server;
    let given = |name: &str| top.places.contains_key(name);
    let mut found = Vec::new();
    if given("target_bytes_max") && server.target_bytes_max > server.head_bytes_max {
        let head = kind_of("head_bytes_max").show(u64::from(server.head_bytes_max));
        let problem =
            ValueProblem::new("`target_bytes_max` is larger than `head_bytes_max`").hint(format!(
                "set it to {head:?} or less, or raise `head_bytes_max`: the head contains the \
                 target"
            ));
        found.push(("target_bytes_max", problem));
    }
    if server.connection_bytes_max / 2 < server.head_bytes_max {
        let needed = kind_of("head_bytes_max").show(u64::from(server.head_bytes_max) * 2);
        let to_blame = match given("connection_bytes_max") {
            true => "connection_bytes_max",
            false => "head_bytes_max",
        };
        let problem =
            ValueProblem::new("`connection_bytes_max` is less than twice `head_bytes_max`")
                .hint(format!("set `connection_bytes_max` to {needed:?} or more"));
        found.push((to_blame, problem));
    }
    if given("origin_pool_idle_count_max")
        && server.origin_pool_idle_count_max > server.origin_connections_max
    {
        let problem = ValueProblem::new(
            "`origin_pool_idle_count_max` is larger than `origin_connections_max`",
        );
        let most = server.origin_connections_max;
        let problem = problem.hint(format!("set it to {most} or less, or raise the other"));
        found.push(("origin_pool_idle_count_max", problem));
    }
    let answers = top.route.answers();
    let mut answers = answers.iter().filter(|(_, is_on)| *is_on);
    if let (Some((one, _)), Some((other, _))) = (answers.next(), answers.next()) {
        let problem = ValueProblem::new(format!("`{one}` and `{other}` are both set"));
        found.push((other, problem.hint("a request gets one answer, so leave one of them out")));
    }
    found.extend(cache_problem(server, given("cache_size") || !given("workers")));
    if server.lock_profile_stacks > 0 && !has_room_for_stacks(server.lock_profile_size) {
        let problem =
            ValueProblem::new("`lock_profile_size` is too small for `lock_profile_stacks`")
                .hint("set `lock_profile_size` to \"350KiB\" or more");
        found.push(("lock_profile_stacks", problem));
    }
    if let AdminAddress::Loopback(admin) = server.admin
        && server.listen.overlaps(admin)
    {
        let problem = ValueProblem::new("`admin` and `listen` have the same address and port");
        found.push(("admin", problem.hint("use another port; without `admin`, it is a socket")));
    }
    found
}

/// Returns the problem with a cache size that is too small for the cache's tables and a few
/// segments for each worker, or too large.
fn cache_problem(
    server: &ServerSettings,
    size_is_to_blame: bool,
) -> Option<(&'static str, ValueProblem)> {
    let workers = server.worker_count();
    let error = server.store(workers).validate().err()?;
    let problem = match error {
        CacheError::BudgetTooSmall { minimum_bytes } => {
            let least = kind_of("cache_size").show(minimum_bytes);
            ValueProblem::new(format!("`cache_size` is too small for {workers} workers"))
                .hint(format!("set `cache_size` to {least:?} or more, or reduce `workers`"))
        }
        CacheError::BudgetTooLarge { maximum_bytes } => {
            let most = kind_of("cache_size").show(maximum_bytes);
            ValueProblem::new("`cache_size` is too large")
                .hint(format!("set `cache_size` to {most:?} or less"))
        }
        other => ValueProblem::new(format!("the cache's settings are invalid: {other}")),
    };
    Some((if size_is_to_blame { "cache_size" } else { "workers" }, problem))
}

fn kind_of(name: &str) -> SettingKind {
    find(SERVER.iter(), name).expect("the table of server settings has this setting").kind
}
