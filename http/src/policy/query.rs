//! The normal form of a query, in which equivalent URLs are equal.
//!
//! RFC 3986 §3.4 leaves the form of a query to the origin, so a query is normalised only if the
//! operator says how. It is read as parameters separated by `&`; the name of a parameter ends
//! before its first `=`. Nothing is decoded, and letters keep their case: `a`, `A` and `%61` are
//! three names.

/// Largest number of parameters that are sorted. Forms and search pages have a few dozen; a query
/// with more parameters keeps its order.
pub const SORTED_PARAMETERS_MAX: usize = 128;

/// Appends the path, and the query with only those parameters whose names `keeps` accepts. If
/// `is_sorted` is set, the parameters are sorted by the bytes of their names. Parameters of the
/// same name keep their order.
///
/// Empty parameters, as in `a&&b`, are removed, and so is a `?` that no parameter follows.
pub fn write_normal_query(
    path_query: &[u8],
    is_sorted: bool,
    keeps: impl Fn(&[u8]) -> bool,
    out: &mut Vec<u8>,
) {
    let (path, query) = split_query(path_query);
    out.extend_from_slice(path);
    let kept = parameters(query).filter(|parameter| keeps(name_of(parameter)));
    if !is_sorted || query.is_empty() || !write_sorted(kept.clone(), out) {
        write_parameters(kept, out);
    }
}

/// Whether the query has more than `count_max` parameters.
pub fn has_more_parameters(path_query: &[u8], count_max: usize) -> bool {
    parameters(split_query(path_query).1).nth(count_max).is_some()
}

/// Splits path and query; the query begins with its `?`, unless there is none.
fn split_query(path_query: &[u8]) -> (&[u8], &[u8]) {
    let query_at = memchr::memchr(b'?', path_query).unwrap_or(path_query.len());
    path_query.split_at_checked(query_at).unwrap_or_default()
}

fn parameters(query: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let parameters = query.get(1..).unwrap_or_default().split(|byte| *byte == b'&');
    parameters.filter(|parameter| !parameter.is_empty())
}

/// Writes the parameters in the order of their names. Returns false if there are too many.
fn write_sorted<'a>(parameters: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) -> bool {
    let mut buffer = [&b""[..]; SORTED_PARAMETERS_MAX];
    let Some(parameters) = collect(parameters, &mut buffer) else { return false };
    // Of two parameters with the same name, the first in the query has the lower address.
    parameters.sort_unstable_by_key(|parameter| (name_of(parameter), parameter.as_ptr()));
    write_parameters(parameters.iter().copied(), out);
    true
}

/// Collects the parameters; `None` if there are too many.
fn collect<'b, 'a>(
    parameters: impl Iterator<Item = &'a [u8]>,
    buffer: &'b mut [&'a [u8]; SORTED_PARAMETERS_MAX],
) -> Option<&'b mut [&'a [u8]]> {
    let mut count = 0;
    for parameter in parameters {
        *buffer.get_mut(count)? = parameter;
        count += 1;
    }
    buffer.get_mut(..count)
}

fn write_parameters<'a>(parameters: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    for (index, parameter) in parameters.enumerate() {
        out.push(if index == 0 { b'?' } else { b'&' });
        out.extend_from_slice(parameter);
    }
}

fn name_of(parameter: &[u8]) -> &[u8] {
    parameter.split(|byte| *byte == b'=').next().unwrap_or_default()
}
