//! Compiles the lexer.

fn main() {
    let sources = ["c/hm_statement.c", "c/hm_statement_verb.c"];
    let headers = ["c/hm_statement.h", "c/hm_statement_read.h", "c/hm_hash.h"];
    for file in sources.iter().chain(&headers) {
        println!("cargo:rerun-if-changed={file}");
    }
    cc::Build::new()
        .files(sources)
        .include("c")
        .std("c11")
        .extra_warnings(true)
        // Optimized in test builds, too: the lexer is a loop over bytes, and tests read captures.
        .opt_level(2)
        .compile("hm_statement");
}
