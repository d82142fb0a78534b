<?php
// Stores a comment, and updates the rating of the member.
require '_site.php';
$member = member();
$id = number('item');
$to = number('to');
$rating = number('rating', -5);
$comment = text('comment', 500);
if (!in_array($rating, [-5, -3, 0, 3, 5], true)) {
    stop(400, 'There is no such rating.');
}
database()->begin_transaction();
if (row('SELECT id FROM users WHERE id = ? FOR UPDATE', $to) === null) {
    database()->rollback();
    stop(404, 'There is no such member.');
}
query('UPDATE users SET rating = rating + ? WHERE id = ?', $rating, $to);
query('INSERT INTO comments (from_user_id, to_user_id, item_id, rating, date, comment) VALUES (?, ?, ?, ?, NOW(), ?)', $member['id'], $to, $id, $rating, $comment);
database()->commit();
page('Thank you');
echo '<p class="stored">It can be read at <a href="user.php?user=', $to, '">their page</a>.</p>';
done();
