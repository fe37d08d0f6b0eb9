//! A native filter: what rules cannot say, said in Rust, for a build of your own.
//!
//! It makes every cookie that an origin sets `Secure`, hides what the origin says about itself, and
//! counts what it changed. Run it with `cargo run -p forebay-http --example filter`.

use forebay_http::edit::{
    ConstantLine, ConstantLines, EditError, EditLimits, EditTable, FieldEdit, FieldName, FieldValue,
};

/// What is known before the first response: names and constant lines are checked once.
struct Filter {
    set_cookie: FieldName,
    hidden: Vec<FieldName>,
    constant: ConstantLines,
    /// A value in the making, reused.
    value: Vec<u8>,
}

impl Filter {
    fn new() -> Option<Filter> {
        let name = |name: &str| FieldName::parse(name.as_bytes());
        let value = FieldValue::parse(b"nosniff")?;
        let constant = ConstantLine::set(name("X-Content-Type-Options")?, value);
        Some(Filter {
            set_cookie: name("Set-Cookie")?,
            hidden: ["Server", "X-Powered-By"].into_iter().map(name).collect::<Option<_>>()?,
            constant: ConstantLines::new(vec![constant]),
            value: Vec::new(),
        })
    }

    /// Changes one head; how many lines were changed or taken out.
    fn run(&mut self, head: &mut FieldEdit<'_>) -> Result<usize, EditError> {
        let mut changed = 0;
        let mut next = head.find(&self.set_cookie);
        while let Some(at) = next {
            next = head.next_duplicate(at);
            let is_secure = |part: &[u8]| part.trim_ascii().eq_ignore_ascii_case(b"secure");
            if head.value(at).split(|byte| *byte == b';').any(is_secure) {
                continue;
            }
            self.value.clear();
            self.value.extend_from_slice(head.value(at));
            self.value.extend_from_slice(b"; Secure");
            // What was a value before is one with this behind it.
            if let Some(value) = FieldValue::parse(&self.value) {
                head.set_value(at, value)?;
                changed += 1;
            }
        }
        changed += self.hidden.iter().map(|name| head.remove_all(name)).sum::<usize>();
        head.apply(&self.constant);
        Ok(changed)
    }
}

fn filtered(lines: &str) -> Result<(usize, String), EditError> {
    let mut filter = Filter::new().expect("the names are tokens");
    // A connection keeps these two from response to response.
    let (mut head, mut table) = (Vec::new(), EditTable::default());
    head.extend_from_slice(lines.as_bytes());
    let mut edit = FieldEdit::new(&mut head, 0, &mut table, EditLimits::default());
    let changed = filter.run(&mut edit)?;
    edit.finish();
    Ok((changed, String::from_utf8_lossy(&head).into_owned()))
}

fn main() -> Result<(), EditError> {
    let lines = "Server: origin/1.0\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2; secure\r\n";
    let (changed, head) = filtered(lines)?;
    print!("{head}");
    println!("{changed} lines changed");
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn cookies_become_secure_in_their_order() {
        let lines = "Server: x\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2; secure\r\nVia: y\r\n";
        let (changed, head) = super::filtered(lines).expect("there is room");
        assert_eq!(changed, 2);
        let expected = "Via: y\r\nSet-Cookie: a=1; Secure\r\nSet-Cookie: b=2; secure\r\n\
            X-Content-Type-Options: nosniff\r\n";
        assert_eq!(head, expected);
    }
}
