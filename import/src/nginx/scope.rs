//! Directives with those of the outer blocks, from which a block inherits.

use super::syntax::NginxDirective;

/// The directive that passes requests to an origin by gRPC.
pub(super) const GRPC_PASS: &str = "grpc_pass";

/// The directives that pass requests to an origin that becomes an origin of Forebay.
pub(super) const PASSES: &[&str] = &["proxy_pass", GRPC_PASS];

/// The blocks around a place, outermost first.
#[derive(Clone)]
pub(super) struct BlockScope<'s> {
    levels: Vec<&'s [NginxDirective]>,
}

impl<'s> BlockScope<'s> {
    pub(super) fn new(outermost: &'s [NginxDirective]) -> BlockScope<'s> {
        BlockScope { levels: vec![outermost] }
    }

    pub(super) fn inside(&self, block: &'s [NginxDirective]) -> BlockScope<'s> {
        let mut levels = self.levels.clone();
        levels.push(block);
        BlockScope { levels }
    }

    /// The scope of the server, which is inside `http`.
    pub(super) fn of_server(&self) -> Option<BlockScope<'s>> {
        self.levels.get(..2).map(|levels| BlockScope { levels: levels.to_vec() })
    }

    /// The directives of the innermost block.
    pub(super) fn own(&self) -> &'s [NginxDirective] {
        self.levels.last().copied().unwrap_or_default()
    }

    /// The directives of all blocks, innermost first.
    pub(super) fn everything(&self) -> impl Iterator<Item = &'s NginxDirective> + '_ {
        self.levels.iter().rev().flat_map(|block| block.iter())
    }

    /// A directive of the innermost block.
    pub(super) fn own_one(&self, name: &str) -> Option<&'s NginxDirective> {
        self.own().iter().find(|directive| directive.name == name)
    }

    /// The directive by which the innermost block passes requests to an origin.
    pub(super) fn pass(&self) -> Option<&'s NginxDirective> {
        self.own().iter().find(|directive| PASSES.contains(&directive.name.as_str()))
    }

    /// Whether the innermost block passes requests to an origin by gRPC. nginx has directives of
    /// its own for these requests.
    pub(super) fn is_grpc(&self) -> bool {
        self.pass().is_some_and(|pass| pass.name == GRPC_PASS)
    }

    /// The fields that the origin gets.
    pub(super) fn sent_fields(&self) -> Vec<&'s NginxDirective> {
        self.all(&[if self.is_grpc() { "grpc_set_header" } else { "proxy_set_header" }])
    }

    /// The fields of the origin that clients do not get.
    pub(super) fn hidden_fields(&self) -> Vec<&'s NginxDirective> {
        self.all(&[if self.is_grpc() { "grpc_hide_header" } else { "proxy_hide_header" }])
    }

    /// The directives with these names of the innermost block that has one. nginx inherits such a
    /// list as a whole, or not at all.
    pub(super) fn all(&self, names: &[&str]) -> Vec<&'s NginxDirective> {
        let of = |block: &'s [NginxDirective]| -> Vec<&'s NginxDirective> {
            block.iter().filter(|directive| names.contains(&directive.name.as_str())).collect()
        };
        let mut found = self.levels.iter().rev().map(|block| of(block));
        found.find(|list| !list.is_empty()).unwrap_or_default()
    }

    /// The directive that applies.
    pub(super) fn one(&self, name: &str) -> Option<&'s NginxDirective> {
        self.all(&[name]).first().copied()
    }

    /// Whether a switch is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.one(name).is_some_and(|directive| directive.arg(0) == "on")
    }
}
