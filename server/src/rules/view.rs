//! A client's request in the form that rules see.

use forebay_rules::apply::RequestView;
use forebay_rules::run::Url;

use crate::parse::Request;

/// Returns the view of `request`; `received` is the request before rules changed it.
pub(crate) fn view_of<'a>(request: &Request<'a>, received: &Request<'a>) -> RequestView<'a> {
    RequestView {
        method: request.head.method().as_bytes(),
        url: Url::new(request.target.authority, request.target.path_query),
        original: Url::new(received.target.authority, received.target.path_query),
        fields: request.head.fields(),
    }
}

/// Returns a view of a request for code other than rules. Only its `fields` are valid.
pub(crate) fn view_without_rules<'a>(request: &Request<'a>) -> RequestView<'a> {
    let url = Url::default();
    RequestView { method: b"", url, original: url, fields: request.head.fields() }
}
