//! Tables in a document: what stands between `<!-- bench: NAME -->` and `<!-- end -->`.

use anyhow::{Result, bail};

/// The document with a section replaced.
///
/// # Errors
/// The document has no such section, or it does not end.
pub(crate) fn replace(document: &str, name: &str, content: &str) -> Result<String> {
    let begin = format!("<!-- bench: {name} -->\n");
    let end = "<!-- end -->";
    let Some((before, rest)) = document.split_once(&begin) else {
        bail!("the document has no `{}`", begin.trim_end());
    };
    let Some((_, after)) = rest.split_once(end) else {
        bail!("the section `{name}` of the document has no `{end}`");
    };
    Ok(format!("{before}{begin}\n{}\n\n{end}{after}", content.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_the_rest_stays() {
        let text =
            "A\n<!-- bench: one -->\nold\n<!-- end -->\nB\n<!-- bench: two -->\n<!-- end -->\n";
        let new = replace(text, "one", "| new |\n").unwrap();
        assert_eq!(
            new,
            "A\n<!-- bench: one -->\n\n| new |\n\n<!-- end -->\nB\n<!-- bench: two -->\n<!-- end -->\n"
        );
        assert_eq!(replace(&new, "one", "| new |").unwrap(), new);
        assert!(replace(text, "three", "").is_err());
        assert!(replace("<!-- bench: one -->\n", "one", "").is_err());
    }
}
