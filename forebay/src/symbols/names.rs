//! Shortens C++ names and skips wrapper functions around locks.

/// Parts of the names of C++ functions that wrap the lock functions of C.
const WRAPPERS: [&str; 3] = ["mutex", "lock", "condition_variable"];

/// Prefixes of wrapper functions of the C library.
const WRAPPERS_OF_C: [&str; 2] = ["__gthread_", "__glibcxx_rwlock_"];

/// Files of GCC's and LLVM's C++ libraries that contain only lock wrappers. Compilers may name a
/// function in them without its class.
const FILES: [&str; 8] = [
    "condition_variable",
    "mutex",
    "shared_mutex",
    "bits/std_mutex.h",
    "bits/unique_lock.h",
    "bits/gthr-default.h",
    "bits/gthr-posix.h",
    "__mutex_base",
];

/// Directories of LLVM's library that contain only lock wrappers.
const FOLDERS: [&str; 2] = ["__mutex/", "__condition_variable/"];

/// Spellings of `std::string`. A spelling comes before any spelling that is a part of it.
const STRINGS: [&str; 4] = [
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >",
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>",
    "std::basic_string<char, std::char_traits<char>, std::allocator<char> >",
    "std::basic_string<char, std::char_traits<char>, std::allocator<char>>",
];

/// Removes lock wrappers at the start of a call stack, unless it has no other functions.
pub(crate) fn without_wrappers<T: AsRef<str>>(lines: Vec<T>) -> Vec<T> {
    match lines.iter().position(|line| !is_wrapper(line.as_ref())) {
        Some(first) => lines.into_iter().skip(first).collect(),
        None => lines,
    }
}

/// Whether a function only wraps a lock. `line` is the function, perhaps with its file and line.
pub(crate) fn is_wrapper(line: &str) -> bool {
    if WRAPPERS_OF_C.iter().any(|word| line.starts_with(word)) {
        return true;
    }
    let (function, place) = line.rsplit_once(' ').unwrap_or((line, ""));
    let file = place.rsplit_once(':').map_or("", |(file, _)| file);
    if FILES.contains(&file) || FOLDERS.iter().any(|folder| file.starts_with(folder)) {
        return true;
    }
    // Without a file, the part after the blank belongs to the function.
    let name = qualified_name(if file.is_empty() { line } else { function });
    name.starts_with("std::") && WRAPPERS.iter().any(|word| name.contains(word))
}

/// Returns the name of a function without parameters, template arguments and return type.
fn qualified_name(function: &str) -> String {
    let mut depth = 0_usize;
    let mut name = String::new();
    for c in function.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => break,
            ' ' if depth == 0 => name.clear(),
            c if depth == 0 => name.push(c),
            _ => {}
        }
    }
    name
}

/// Returns a C++ name in which `std::string` is a single word and default allocators are omitted.
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
                // Older demanglers put a blank between two closing brackets.
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

/// Returns the offset after the bracket that closes a bracket which was opened before the text.
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
    fn default_arguments_are_left_out_of_cpp_names() {
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
    fn cpp_lock_wrappers_are_left_out() {
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
                &["wait<f()::<lambda()> > condition_variable:102", "f() a.cc:8", "main a.cc:9"],
                &["f() a.cc:8", "main a.cc:9"],
            ),
            (&["lock bits/unique_lock.h:141", "f a.cc:8"], &["f a.cc:8"]),
            (&["lock bits/std_mutex.h:100", "f a.cc:8"], &["f a.cc:8"]),
            (&["lock_shared shared_mutex:80", "lock mutex:90", "f a.cc:8"], &["f a.cc:8"]),
            (&["lock __mutex_base:100", "lock_guard __mutex/lock_guard.h:30", "f a"], &["f a"]),
            (&["wait<f> __condition_variable/condition_variable.h:7", "f a"], &["f a"]),
            (
                &["bool std::timed_mutex::try_lock_for<long>(std::chrono<long>)+0x7 a", "f a"],
                &["f a"],
            ),
            (
                &["work(std::vector<int>&) a.cc:4", "main a.cc:9"],
                &["work(std::vector<int>&) a.cc:4", "main a.cc:9"],
            ),
            // The program's own functions are kept, whatever the names of their parameters and
            // files.
            (
                &["f(int, std::mutex&) a.cc:4", "main b:9"],
                &["f(int, std::mutex&) a.cc:4", "main b:9"],
            ),
            (
                &["void f<std::mutex>(int) a.cc:4", "g b:9"],
                &["void f<std::mutex>(int) a.cc:4", "g b:9"],
            ),
            (&["lock unique_lock.h:4", "g b:9"], &["lock unique_lock.h:4", "g b:9"]),
            (&["lock mutex.h:4", "g b:9"], &["lock mutex.h:4", "g b:9"]),
        ] {
            assert_eq!(without_wrappers(lines(before)), lines(after));
        }
    }
}
