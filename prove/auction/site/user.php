<?php
// One member, with comments by others.
require '_site.php';
$id = number('user');
$user = row('SELECT nickname, creation_date, rating, region FROM users WHERE id = ?', $id);
if ($user === null) {
    stop(404, 'There is no such member.');
}
$comments = rows('SELECT from_user_id, item_id, rating, date, comment FROM comments WHERE to_user_id = ? ORDER BY date DESC LIMIT 20', $id);
page($user['nickname']);
echo '<p>Member since ', $user['creation_date'], ', rating <span id="rating">', $user['rating'], '</span></p><p><span id="comments">',
    count($comments), '</span> comments</p>';
foreach ($comments as $comment) {
    echo '<blockquote><a href="user.php?user=', $comment['from_user_id'], '">', esc(nickname((int) $comment['from_user_id'])), '</a> about <a href="item.php?item=',
        $comment['item_id'], '">an item</a>, ', $comment['date'], ' (', $comment['rating'], '): ', esc($comment['comment']), '</blockquote>';
}
done();
