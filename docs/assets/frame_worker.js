// A worker in a hidden frame: browsers allow none to a page that was opened from a disk, and the search of the site is one.
(() => {
  if (location.protocol !== "file:") return;
  const load = (w, url) => new Promise((done, failed) => {
    const script = w.document.createElement("script");
    script.src = url;
    script.onload = () => done();
    script.onerror = () => failed(new Error(`cannot load ${url}`));
    w.document.head.appendChild(script);
  });
  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.ready = new Promise((done) => this.frame.addEventListener("load", done, { once: true })).then(() => {
        const w = this.frame.contentWindow;
        w.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        w.importScripts = (...urls) => urls.reduce((before, each) => before.then(() => load(w, new URL(each, url).href)), Promise.resolve());
        return load(w, new URL(url, location.href).href).then(() => w);
      });
      document.body.appendChild(this.frame);
    }

    postMessage(data) {
      this.ready.then((w) => w.dispatchEvent(new w.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  }
  window.IFrameWorker = window.Worker = FrameWorker; // the name by which the script of the search knows that it runs in a frame
})();
