//! Views of answers: a view contains an answer and dereferences to it.

/// A view of an answer.
macro_rules! view_of {
    ($(#[$about:meta])* $view:ident($answer:ty)) => {
        $(#[$about])*
        #[derive(Clone, Debug)]
        pub struct $view(pub $answer);

        impl std::ops::Deref for $view {
            type Target = $answer;

            fn deref(&self) -> &$answer {
                &self.0
            }
        }
    };
}
pub(crate) use view_of;
