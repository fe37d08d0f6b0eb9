//! Names as people read them.

/// Functions that stand between a lock and who wants it: what C++ has around those of C.
const WRAPPERS: [&str; 3] = ["mutex", "lock", "condition_variable"];

/// The same of the C library and its threads, by how they begin.
const WRAPPERS_OF_C: [&str; 2] = ["__gthread_", "__glibcxx_rwlock_"];

/// How C++ calls a string, the later of which are parts of the earlier.
const STRINGS: [&str; 4] = [
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >",
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>",
    "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
    "std::basic_string<char, std::char_traits<char>, std::allocator<char>>",
];

/// Leaves out the functions around the lock, unless there are no others.
pub(crate) fn without_wrappers<T: AsRef<str>>(lines: Vec<T>) -> Vec<T> {
    let is_wrapper = |line: &T| {
        let line = line.as_ref();
        let of_std = line.split([' ', '<']).any(|word| word.starts_with("std::"))
            && WRAPPERS.iter().any(|word| line.contains(word));
        of_std || WRAPPERS_OF_C.iter().any(|word| line.starts_with(word))
    };
    match lines.iter().position(|line| !is_wrapper(line)) {
        Some(first) => lines.into_iter().skip(first).collect(),
        None => lines,
    }
}

/// A name of C++ without what everybody has: `std::string` in one word, and no allocators where
/// there is only the usual one.
pub(super) fn plain_cpp(name: &str) -> String {
    const ALLOCATOR: &str = ", std::allocator<";
    let mut name = name.to_owned();
    for string in STRINGS {
        name = name.replace(string, "std::string");
    }
    let mut from = 0;
    while let Some(at) = name.get(from..).and_then(|rest| rest.find(ALLOCATOR)) {
        let start = from + at;
        let inner = start + ALLOCATOR.len();
        match end_of(name.get(inner..).unwrap_or_default()) {
            Some(length) => {
                let end = inner + length;
                // Between two brackets there may be a space.
                let is_bare = !name.get(..start).is_some_and(|before| before.ends_with('>'));
                let space = is_bare && name.get(end..).is_some_and(|rest| rest.starts_with(" >"));
                name.replace_range(start..end + usize::from(space), "");
                from = start;
            }
            None => from = inner,
        }
    }
    name
}

/// Behind the bracket that closes one which was opened before the text.
fn end_of(text: &str) -> Option<usize> {
    let mut depth = 1_usize;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_everybody_has_is_left_out_of_a_name() {
        for (name, expected) in [
            (
                "f(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > \
                 const&) x.cc:1",
                "f(std::string const&) x.cc:1",
            ),
            (
                "A<int, std::vector<B<c>, std::allocator<B<c> > > >::f() x.cc:1",
                "A<int, std::vector<B<c> > >::f() x.cc:1",
            ),
            ("A<b, std::allocator<c", "A<b, std::allocator<c"),
            ("std::allocator<char>::f()", "std::allocator<char>::f()"),
        ] {
            assert_eq!(plain_cpp(name), expected);
        }
    }

    #[test]
    fn what_cpp_has_around_its_locks_is_left_out() {
        let lines = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (before, after) in [
            (
                &["__gthread_mutex_lock gthr.h:7", "std::mutex::lock() m.h:1", "work a.cc:4"][..],
                &["work a.cc:4"][..],
            ),
            (
                &["__glibcxx_rwlock_rdlock s:7", "std::shared_mutex::lock() s:1", "work a.cc:4"],
                &["work a.cc:4"],
            ),
            (&["std::mutex::lock() m.h:1"], &["std::mutex::lock() m.h:1"]),
            (
                &["work(std::vector<int>&) a.cc:4", "main a.cc:9"],
                &["work(std::vector<int>&) a.cc:4", "main a.cc:9"],
            ),
        ] {
            assert_eq!(without_wrappers(lines(before)), lines(after));
        }
    }
}
